"""`ramet search` and `ramet rank` with `--start`: every network of the space begins with trained weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import ramet
from ramet.cli.main import main
from ramet.data import load
from ramet.errors import ConfigError, RametError
from ramet.execution import Inline
from ramet.jobs.rank import RankRecipe
from ramet.jobs.runner import resume
from ramet.jobs.search import SearchRecipe
from ramet.ranking import Plan
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.weights import StartWeights, put_weights
from ramet.runs import Checkpoints, read_records
from ramet.searching import SearchPlan
from ramet.searching.staged.options import StagedOptions
from ramet.spaces import Space, elastic, make_space
from ramet.spaces.own.module_space import Choice, ModuleSpace
from ramet.training import Recipe, saved_part

STILL = 1e-12
"""A learning rate that moves no weight of single precision by a bit that matters."""
FILE = """
from torch import nn

from ramet.spaces import Choice


def network(in_channels, num_classes):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3),
        Choice({"wide": nn.Conv2d(4, 4, 3), "narrow": nn.Conv2d(4, 4, 1)}, name="middle"),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, num_classes),
    )
"""
PLAN = SearchPlan(
    strategy="random",
    epochs=1,
    warmup_epochs=0,
    models_per_epoch=2,
    batches_per_model=1,
    strategy_steps=1,
    archs_per_step=2,
    num_candidates=2,
    num_final=2,
    final_epochs=1,
    without_baselines=True,
)
DATA = {"train_size": 40, "eval_size": 40}


def network(in_channels: int, num_classes: int) -> nn.Module:
    """The file's network, before it had a choice: what the trained weights are of."""
    middle = nn.Sequential()
    middle.add_module("options", nn.ModuleDict({"0": nn.Conv2d(4, 4, 3)}))
    parts = [nn.Conv2d(in_channels, 4, 3), middle, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(16, num_classes))


@pytest.fixture
def space(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(FILE)
    return f"{tmp_path / 'own.py'}:network"


@pytest.fixture
def trained(tmp_path: Path) -> dict[str, torch.Tensor]:
    """Weights of the network without its second option, which lie in a file of each kind."""
    drawn = torch.Generator().manual_seed(1)
    state = {name: torch.randn(value.shape, generator=drawn) / 4 for name, value in network(1, 10).state_dict().items()}
    save_file(state, tmp_path / "trained.safetensors")
    torch.save(state, tmp_path / "trained.pt")
    return state


def supernet_of(source: str, folder: Path) -> nn.Module:
    made = make_space(source, in_channels=1, num_classes=10).supernet(1, 10)
    put_weights(made, str(folder))
    return made


def own_names(made: nn.Module) -> dict[str, torch.Tensor]:
    return {made.name_in_module(name): value for name, value in made.state_dict().items()}  # type: ignore[operator]


def is_close(state: dict[str, torch.Tensor], trained: dict[str, torch.Tensor]) -> bool:
    return all(torch.allclose(state[name], value, atol=1e-6) for name, value in trained.items())


@pytest.mark.parametrize("file", ["trained.safetensors", "trained.pt"])
def test_shared_weights_and_those_found_begin_with_the_file(
    file: str, space: str, trained: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    recipe = SearchRecipe(learning_rate=STILL, weight_decay=0.0)
    result = ramet.search(space, start=tmp_path / file, plan=PLAN, recipe=recipe, out=tmp_path / "run", **DATA)
    shared = own_names(supernet_of(space, result.folder / "checkpoints" / "search"))
    assert is_close(shared, trained)
    assert not is_close(shared, {"1.options.1.weight": torch.zeros(4, 4, 1, 1)}), "the other option is drawn"
    setup = SupernetSetup(make_space(space, in_channels=1, num_classes=10), load("digits", **DATA), recipe)
    finals = list((result.folder / "checkpoints").glob("final-*"))
    assert finals
    for folder in finals:
        assert is_close(own_names(supernet_of(space, folder)), trained), "what was found begins with them, too"
    assert not is_close(own_names(setup.new_supernet(0)), trained), "without a start it does not"


def test_children_of_a_ranking_begin_with_the_file(
    space: str, trained: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    recipe = RankRecipe(learning_rate=STILL, epochs=1)
    options = {"recipe": recipe, "truth_cache": tmp_path / "cache", **DATA}
    plan = Plan(instances=1, fine_tune_steps=1, fine_tune_learning_rate=STILL)
    start = str(tmp_path / "trained.pt")
    result = ramet.rank(space, start=start, plan=plan, out=tmp_path / "run", **options)
    shared = own_names(supernet_of(space, result.folder / "checkpoints" / "instance-0" / "group-0"))
    assert is_close(shared, trained)
    assert _true_of(result.folder) == pytest.approx(_accuracy(trained), abs=1e-6)
    # Another start has another truth: it is not taken from the cache.
    others = {name: -value for name, value in trained.items()}
    assert _accuracy(others) != _accuracy(trained)
    torch.save(others, start)
    other = ramet.rank(space, start=start, plan=plan, out=tmp_path / "other", **options)
    assert _true_of(other.folder) == pytest.approx(_accuracy(others), abs=1e-6)


def _true_of(folder: Path) -> float:
    """The true accuracy of the child with the trained option, which is the first of two."""
    truth = next(record for record in read_records(folder) if record["key"].startswith("truth/child-0/"))
    return float(truth["test"])


def _accuracy(weights: dict[str, torch.Tensor]) -> float:
    """That of the network by itself, on the test data."""
    plain = network(1, 10).eval()
    plain.load_state_dict(weights)
    plain[1] = plain[1].options["0"]
    data = load("digits", seed=0, **DATA)
    return float((plain(data.test.x).argmax(dim=1) == data.test.y).float().mean())


def test_a_staged_search_trains_alone_from_the_file(
    space: str, trained: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    staged = StagedOptions(evaluations=2, short_epochs=1.0, stages="shared+short")
    plan = replace(PLAN, staged=staged, num_final=0)
    recipe = SearchRecipe(learning_rate=STILL, weight_decay=0.0)
    start = tmp_path / "trained.safetensors"
    result = ramet.search(space, start=start, plan=plan, recipe=recipe, out=tmp_path / "run", **DATA)
    alone = list((result.folder / "checkpoints").glob("alone-*"))
    assert alone
    for folder in alone:
        assert is_close(own_names(supernet_of(space, folder)), trained)


def test_a_search_goes_on_from_the_weights_of_another(tmp_path: Path) -> None:
    source, recipe = "cells64:channels=2,num_cells=1", SearchRecipe(learning_rate=0.05)
    first = ramet.search(source, plan=PLAN, recipe=recipe, out=tmp_path / "first", **DATA)
    still, folder = replace(recipe, learning_rate=STILL, weight_decay=0.0), first.folder / "checkpoints" / "search"
    second = ramet.search(source, start=folder, plan=PLAN, recipe=still, out=tmp_path / "second", **DATA)
    saved = [Checkpoints(run.folder / "checkpoints" / "search").load() for run in (first, second)]
    states = [saved_part(checkpoint, "network") for checkpoint in saved if checkpoint is not None]
    weights = {name: value for name, value in states[0].items() if value.is_floating_point() and "running" not in name}
    assert len(states) == 2 and weights and is_close(states[1], weights)


def test_a_head_of_other_classes_is_left_out(trained: dict[str, torch.Tensor], tmp_path: Path, space: str) -> None:
    few = make_space(space, in_channels=1, num_classes=3)
    assert isinstance(few, ModuleSpace)
    supernet = few.supernet(1, 3)
    before = {name: value.clone() for name, value in own_names(supernet).items()}
    StartWeights("trained", trained).put(supernet)
    after = own_names(supernet)
    body = {name: value for name, value in trained.items() if not name.startswith("5.")}
    assert is_close(after, body) and torch.equal(after["5.weight"], before["5.weight"])


def test_what_stood_where_a_choice_is_goes_to_the_option_that_it_fits(
    space: str, trained: dict[str, torch.Tensor]
) -> None:
    plain = {name.replace("1.options.0.", "1."): value for name, value in trained.items()}
    assert "1.weight" in plain
    supernet = make_space(space, in_channels=1, num_classes=10).supernet(1, 10)
    drawn = own_names(supernet)["1.options.1.weight"].clone()
    StartWeights("given", plain).put(supernet)
    after = own_names(supernet)
    assert is_close(after, trained) and torch.equal(after["1.options.1.weight"], drawn)
    narrow = plain | {"1.weight": torch.ones(4, 4, 1, 1)}
    StartWeights("given", narrow).put(supernet)
    assert torch.equal(own_names(supernet)["1.options.1.weight"], torch.ones(4, 4, 1, 1))
    with pytest.raises(ConfigError, match=r"has besides 1\.bias, 1\.weight"):
        StartWeights("given", plain | {"1.weight": torch.ones(4, 4, 7, 7)}).put(supernet)
    with pytest.raises(ConfigError, match=r"must be those of one option, but given has some that fit 0 and 1"):
        StartWeights("given", {"1.bias": torch.ones(4)}).put(supernet)


def test_a_module_that_is_no_chain_by_its_own_names() -> None:
    class Own(nn.Module):
        def __init__(self, in_channels: int, num_classes: int) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.ReLU())
            self.middle = Choice({"a": nn.Linear(6, 6), "b": nn.Identity()})
            self.head = nn.Linear(6, num_classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.middle(self.body(x)))

    space = ModuleSpace(Own, in_channels=1, num_classes=3)
    weights = {"body.1.weight": torch.ones(6, 64), "body.1.bias": torch.ones(6), "middle.options.0.bias": torch.ones(6)}
    supernet = space.supernet(1, 3)
    StartWeights("given", {f"module.{name}": value for name, value in weights.items()}).put(supernet)
    assert is_close(own_names(supernet), weights), "by the module's names, with what wraps them taken off"


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"elsewhere.weight": torch.ones(2)}, "has besides elsewhere.weight"),
        ({"0.weight": torch.ones(4, 1, 5, 5)}, "has with another shape 0.weight"),
        ({"5.weight": torch.ones(10, 17)}, "has with another shape 5.weight"),
        ({"0.bias": torch.ones(4, dtype=torch.int64)}, "has with another type 0.bias"),
        ({"0.bias": torch.full((4,), float("nan"))}, "weights must be finite"),
        ("cut", "weights must be a .safetensors file"),
        ("nowhere", "is not there"),
        ("folder", "must hold checkpoints"),
    ],
)
@pytest.mark.parametrize("verb", ["search", "rank"])
def test_weights_that_do_not_fit_are_one_line_and_leave_nothing(
    verb: str, weights: object, words: str, space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ("weights" if weights == "folder" else "weights.safetensors")
    if isinstance(weights, dict):
        save_file(weights, file)
    elif weights == "cut":
        file.write_bytes(b"\x10")
    elif weights == "folder":
        file.mkdir()
    with pytest.raises(SystemExit) as caught:
        main([verb, "--space", space, "--start", str(file), "--out", str(tmp_path / "run"), "--train-size", "40"])
    error = capsys.readouterr().err
    assert caught.value.code == 2 and words in error and "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_slices_of_a_trained_network_have_their_own_weights() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    slices: Space = elastic(net, torch.randn(2, 1, 8, 8), widths=(0.5, 1))
    with pytest.raises(ConfigError, match="begin with its own weights, so start must be none"):
        SupernetSetup(slices, load("digits", **DATA), Recipe(), start=StartWeights("given", net.state_dict()))


def test_other_weights_in_the_file_are_another_run(
    space: str, trained: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    start, run = tmp_path / "trained.pt", tmp_path / "run"
    plan = replace(PLAN, num_final=1)
    found = ramet.search(space, start=start, plan=plan, recipe=SearchRecipe(), out=run, **DATA)
    lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
    (run / "records.jsonl").write_bytes(b"".join(lines[:2]))  # the setting and the epoch
    again = resume(run, Inline(), trust=True)
    assert again.trained == found.trained
    (run / "records.jsonl").write_bytes(b"".join(lines[:2]))
    torch.save({name: value + 1 for name, value in trained.items()}, start)
    with pytest.raises(RametError, match="start"):
        resume(run, Inline(), trust=True)


def test_a_ranking_scores_a_state_that_torch_saved(tmp_path: Path) -> None:
    source = "cells64:channels=2,num_cells=1"
    supernet = make_space(source).supernet(1, 10)
    torch.save(supernet.state_dict(), tmp_path / "supernet.pt")
    other = make_space(source).supernet(1, 10)
    put_weights(other, str(tmp_path / "supernet.pt"))
    assert is_close(other.state_dict(), supernet.state_dict())
