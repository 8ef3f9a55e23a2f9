"""All sizes of a network in one training: the same bits after a kill, in rank, in search, and under guards."""

from __future__ import annotations

import json
from dataclasses import replace

import onnxruntime
import pytest
import torch
from elastic_networks import Gpt
from torch import nn

import ramet
from ramet.data import load
from ramet.errors import ConfigError
from ramet.guards import make_guard
from ramet.ranking import Plan
from ramet.runs import Checkpoints
from ramet.searching import SearchPlan
from ramet.searching.elastic import calibration_inputs, child_of, score_sizes, sizes_at, train_elastic
from ramet.spaces import elastic
from ramet.training import Recipe, accuracy

RECIPE = Recipe(epochs=2, batch_size=20, learning_rate=0.05)


class StopError(Exception):
    """The training is killed."""


def network():
    torch.manual_seed(0)
    stem = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return nn.Sequential(stem, nn.Dropout(0.1), nn.Flatten(), nn.Linear(64, 10))


def plasticity():
    return make_guard("plasticity:1", warmup_epochs=0)


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=100, eval_size=40)


@pytest.fixture
def space():
    return elastic(network(), torch.zeros(2, 1, 8, 8), widths=(0.25, 0.5, 1))


def test_a_killed_training_ends_with_the_same_bits(space, digits, tmp_path):
    x, y = digits.train.x, digits.train.y
    turns = {"seed": 1, "batches_per_turn": 2}
    expected = train_elastic(space, x, y, RECIPE, guard=plasticity(), **turns)

    def stop(step, loss):
        if step == 6:
            raise StopError

    options = {**turns, "checkpoints": Checkpoints(tmp_path / "killed"), "seconds_between_checkpoints": 0.0}
    with pytest.raises(StopError):
        train_elastic(space, x, y, RECIPE, guard=plasticity(), after_step=stop, **options)
    found = train_elastic(space, x, y, RECIPE, guard=plasticity(), **options)
    for name, tensor in expected.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name


@pytest.mark.parametrize("guard", ["plasticity:1", "elastic:1", "projection:1"])
def test_guards_act_on_slices(guard, space, digits):
    x, y = digits.train.x, digits.train.y
    recipe = replace(RECIPE, epochs=1)
    free = train_elastic(space, x, y, recipe, seed=1, batches_per_turn=2)
    held = train_elastic(space, x, y, recipe, seed=1, batches_per_turn=2, guard=make_guard(guard, warmup_epochs=0))
    assert any(not torch.equal(held.state_dict()[name], tensor) for name, tensor in free.state_dict().items())
    assert all(bool(torch.isfinite(parameter).all()) for parameter in held.parameters())


def test_sizes_of_a_step_follow_from_the_seed(space):
    drawn = [sizes_at(space, 3, step, 2) for step in range(50)]
    assert drawn == [sizes_at(space, 3, step, 2) for step in range(50)]
    assert {arch for pair in drawn for arch in pair} == set(space)
    assert drawn != [sizes_at(space, 4, step, 2) for step in range(50)]


def test_every_size_learns(space, digits):
    recipe = Recipe(epochs=20, batch_size=20, learning_rate=0.1)
    supernet = train_elastic(space, digits.train.x, digits.train.y, recipe, seed=0)
    few = calibration_inputs(digits.train.x, recipe, 0)
    before = score_sizes(space.supernet(1, 10), list(space), digits.train.x, digits.train.y, few)
    after = score_sizes(supernet, list(space), digits.train.x, digits.train.y, few)
    assert all(new > old + 0.2 for old, new in zip(before, after, strict=True)), (before, after)
    children = [child_of(supernet, arch, few) for arch in space]
    assert [accuracy(child, digits.train.x, digits.train.y) for child in children] == pytest.approx(after)


def test_numbers_between_are_checked(space, digits):
    with pytest.raises(ConfigError, match="num_between must not be negative, but got -1"):
        train_elastic(space, digits.train.x, digits.train.y, RECIPE, seed=0, num_between=-1)
    with pytest.raises(ConfigError, match="batches_per_turn must be at least 1, but got 0"):
        train_elastic(space, digits.train.x, digits.train.y, RECIPE, seed=0, batches_per_turn=0)
    with pytest.raises(ConfigError, match="turn must last at least 2 mini-batches"):
        train_elastic(space, digits.train.x, digits.train.y, RECIPE, seed=0, guard=plasticity())


def test_numbers_and_texts_are_learned_too():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(60, 3)
    y = x.sum(1, keepdim=True)
    space = elastic(net, x[:4], widths=(0.5, 1))
    losses = []
    recipe = Recipe(epochs=20, batch_size=20, learning_rate=0.05)
    train_elastic(space, x, y, recipe, seed=0, after_step=lambda step, loss: losses.append(loss))
    assert losses[-1] < losses[0] / 4
    tokens = torch.randint(11, (40, 6))
    space, told = elastic(Gpt(), tokens[:4], heads=(0.5, 1), depths=(0, 1)), []
    assert space.takes_text
    recipe = Recipe(epochs=10, batch_size=20, learning_rate=0.2)
    train_elastic(space, tokens, tokens, recipe, seed=0, after_step=lambda step, loss: told.append(loss))
    assert told[-1] < told[0]


FILE = """
import torch
from torch import nn
from ramet.spaces import elastic

def sizes():
    torch.manual_seed(0)
    stem = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    net = nn.Sequential(stem, nn.Flatten(), nn.Linear(128, 10))
    return elastic(net, torch.zeros(2, 1, 8, 8), widths=(0.25, 0.5, 0.75, 1))
"""


@pytest.fixture
def file(tmp_path, request):
    path = tmp_path / f"file_of_{request.node.name[:40]}.py"
    path.write_text(FILE, encoding="utf-8")
    return f"{path}:sizes"


def test_a_search_finds_a_size_within_the_budget_and_writes_it_as_it_is(file, tmp_path):
    plan = SearchPlan(
        strategy="random", epochs=3, warmup_epochs=1, models_per_epoch=4, batches_per_model=3, strategy_steps=1,
        archs_per_step=3, budget="params=800", num_candidates=3, num_final=1, onnx=True,
    )  # fmt: skip
    out = tmp_path / "run"
    result = ramet.search(file, "digits", plan=plan, out=out, train_size=200, eval_size=100)
    assert result.best in ("width=0.25", "width=0.5"), "0.75 has 844 parameters"
    exported = torch.export.load(out / "network.pt2").module()
    data = load("digits", train_size=200, eval_size=100, validation_fraction=0.4)
    wrong = float((exported(data.test.x).argmax(1) != data.test.y).float().mean())
    assert wrong == pytest.approx(result.trained[0].test)
    session = onnxruntime.InferenceSession(str(out / "network.onnx"))
    logits = session.run(None, {session.get_inputs()[0].name: data.test.x.numpy()})[0]
    assert float((torch.from_numpy(logits).argmax(1) != data.test.y).float().mean()) == pytest.approx(wrong)
    again = ramet.search(file, "digits", plan=plan, out=tmp_path / "again", train_size=200, eval_size=100)
    assert again.trained[0].test == result.trained[0].test


def test_rank_judges_the_slices(file, tmp_path):
    plan = Plan(instances=2, last_epochs=1, last_steps=2, truth_seeds=1, fine_tune_steps=2)
    recipe = Recipe(epochs=2, batch_size=20, learning_rate=0.05)
    options = {"truth_cache": tmp_path / "cache", "train_size": 100, "eval_size": 40}
    result = ramet.rank(file, "digits", plan=plan, recipe=recipe, out=tmp_path / "run", **options)
    records = [json.loads(line) for line in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    truths = [record for record in records if record["key"].startswith("truth/")]
    assert len(truths) == 4 and all(0 <= record["test"] <= 1 for record in truths), [r["key"] for r in records]
    assert "width=" in result.summary() or result.report


@pytest.mark.parametrize("options", [{"strategy": "darts"}, {"sharing": "groups:2:random"}])
def test_slices_are_neither_mixed_nor_grouped(options, space):
    with pytest.raises(ConfigError, match="slices of one network"):
        SearchPlan(**options).check(space)
