"""Language models of a user's own in a search: a factory that asks for words and length, on any text."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import ramet
from ramet.cli.main import main
from ramet.costs import count_parameters
from ramet.data.text import read_text
from ramet.errors import ConfigError
from ramet.jobs.rank.job import RankRecipe
from ramet.jobs.search import SearchRecipe
from ramet.ranking.instance import score_children
from ramet.ranking.plan import Plan
from ramet.searching import SearchPlan
from ramet.searching.costs import ArchCosts
from ramet.searching.measures import measure
from ramet.spaces import Choice, ModuleSpace, make_space, takes_text
from ramet.testing.spaces import SPACE_CHECKS

SPACE = """
from torch import nn
from ramet.spaces import Choice

class Branch(nn.Module):
    def __init__(self, width, hidden, activation):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), activation, nn.Linear(hidden, width))

    def forward(self, x):
        return x + self.layers(x)

def space(words, length, width=6):
    places = [Choice({"none": nn.Identity(), "relu": Branch(width, 4, nn.ReLU()), "gelu": Branch(width, 12, nn.GELU())})
              for _ in range(2)]
    return nn.Sequential(nn.Embedding(words, width), *places, nn.Linear(width, words))
"""
PLAN = SearchPlan(epochs=2, warmup_epochs=1, models_per_epoch=2, batches_per_model=2, strategy_steps=1, final_epochs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "language_space.py").write_text(SPACE)
    (folder / "story.txt").write_text("a cat sat on a mat\nthe dog sat on the log\n" * 60)
    return folder


@pytest.fixture(scope="module")
def own(folder):
    return f"{folder / 'language_space.py'}:space"


@pytest.fixture(scope="module")
def story(folder):
    return f"text:{folder / 'story.txt'}:tokens=characters,length=8"


@pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
def test_a_space_of_language_models_passes_the_suite(check, own):
    check(make_space(own), (5,), 7)


def test_a_factory_says_by_its_arguments_that_it_takes_text(own):
    assert takes_text(own) and takes_text(make_space(own))
    assert not takes_text(lambda in_channels, num_classes: None)
    only_words = ModuleSpace(lambda words: nn.Sequential(Choice([nn.Embedding(words, 4), nn.Embedding(words, 3)])))
    assert only_words.takes_text and only_words.supernet(9, 7).stages[0].module.options[0].num_embeddings == 7


def test_costs_are_those_of_tokens(own):
    space = make_space(own)
    costs = ArchCosts(space, (8,), 20)
    child = space.supernet(8, 20).child((1, 2))
    assert costs("params", (1, 2)) == count_parameters(child)
    assert costs("flops", (1, 2)) == 8 * (2 * 6 * 4 + 2 * 6 * 12 + 6 * 20)  # linear layers, at each token
    assert costs("latency", (1, 2)) > 0


def test_perplexity_is_that_of_the_mean_loss_of_a_token(own, story):
    data = read_text(story)
    network = make_space(own).supernet(8, data.num_classes)
    x, y = data.validation.x, data.validation.y
    with torch.no_grad():
        logits = network(x, (1, 2))  # [batch, length, words]
        by_hand = math.exp(float(cross_entropy(logits.reshape(-1, data.num_classes), y.reshape(-1))))
    assert measure(network, (1, 2), x, y).error == pytest.approx(by_hand, rel=1e-5)  # sums in single precision


@pytest.mark.parametrize("guard", ["none", "plasticity:60"])
def test_a_space_of_ones_own_is_searched_on_a_text(guard, own, story, tmp_path):
    plan = SearchPlan(**{**vars(PLAN), "guard": guard, "budget": "params=500", "num_final": 1})
    result = ramet.search(own, story, plan=plan, recipe=SearchRecipe(batch_size=16), out=tmp_path / "run")
    assert result.metric == "perplexity"
    assert all(entry.parameters <= 500 for entry in result.candidates)
    assert 1 < result.chosen.test < 100 and result.network.exists()
    exported = torch.export.load(result.network).module()
    assert exported(torch.zeros(2, 8, dtype=torch.long)).shape[:2] == (2, 8)


def test_a_search_on_a_text_from_the_command_line(own, story, tmp_path, capsys):
    words = "--epochs 1 --warmup-epochs 0 --models-per-epoch 1 --strategy-steps 1 --final-epochs 1 --batch-size 16"
    main(["search", "--space", own, "--data", story, *words.split(), "--out", str(tmp_path / "run")])
    assert "test perplexity" in capsys.readouterr().out


@pytest.mark.parametrize("sharing", ["full", "groups:2:interference"])
def test_a_space_of_ones_own_is_ranked_on_a_text_by_its_tokens(sharing, own, story, tmp_path):
    plan = Plan(instances=1, truth_seeds=1, sharing=sharing, fine_tune_steps=2)
    recipe = RankRecipe(epochs=1, batch_size=16)
    result = ramet.rank(own, story, plan=plan, recipe=recipe, out=tmp_path / "run", truth_cache=tmp_path / "truth")
    assert len(result.children) == 9 and result.summary()


def test_accuracies_of_children_are_shares_of_tokens(own, story):
    data, space = read_text(story), make_space(own)
    network = space.supernet(8, data.num_classes).eval()
    x, y = data.validation.x, data.validation.y
    with torch.no_grad():
        by_hand = [float((network(x, arch).argmax(dim=2) == y).float().mean()) for arch in space]
    assert score_children(network, list(space), x, y) == pytest.approx(by_hand, rel=1e-6)  # single-precision means


def test_images_are_not_for_language_models(own, tmp_path):
    digits = ramet.data.load("digits", train_size=40, eval_size=20)
    with pytest.raises(ConfigError, match="text is for spaces of language models"):
        ramet.search(own, digits, plan=PLAN, out=tmp_path / "run")


def test_a_search_on_tokens_that_stay_on_disk_is_that_on_those_in_memory(own, story, tmp_path):
    found = []
    for place, options in (("memory", {}), ("disk", {"in_memory": False, "spool": str(tmp_path / "spool")})):
        plan = SearchPlan(**{**vars(PLAN), "guard": "plasticity:60", "num_final": 1})
        recipe = SearchRecipe(batch_size=16)
        result = ramet.search(own, story, plan=plan, recipe=recipe, out=tmp_path / place, **options)
        found.append((result.chosen.test, result.network.with_suffix("").name, [vars(e) for e in result.candidates]))
    assert found[0] == found[1]
