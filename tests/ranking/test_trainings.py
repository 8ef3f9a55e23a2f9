"""Ways to train a supernet: the conformance suite over all, fair and sandwich steps against plain loops, and rank."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ramet.cli import main
from ramet.costs import count_parameters
from ramet.data import load
from ramet.errors import ConfigError
from ramet.ranking import Plan
from ramet.ranking.instance import load_network, score_children, score_losses, train_instance
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.trainings import TRAININGS, FairTraining, SandwichTraining, SupernetTraining, make_training
from ramet.runs import read_records
from ramet.seeding import seeded_globally
from ramet.spaces import Cells64, NasBench201, space_of
from ramet.spaces.own.module_space import Choice
from ramet.testing.trainings import TRAINING_CHECKS
from ramet.training import Recipe

SPACE = Cells64(channels=2, num_cells=1, operations=["max_pool_3x3", "sep_conv_3x3"])
TINY = ["--space", 'cells64:operations=["max_pool_3x3","sep_conv_3x3"]', "--channels", "2", "--cells", "1"]
TINY += ["--train-size", "60", "--eval-size", "40", "--epochs", "4", "--batch-size", "20", "--last-steps", "2"]
TINY += ["--instances", "1", "--fine-tune-steps", "1", "--json"]


@pytest.mark.parametrize("name", TRAININGS.names())
@pytest.mark.parametrize("check", TRAINING_CHECKS, ids=lambda check: check.__name__)
def test_every_way_passes_the_suite(name: str, check: Any) -> None:
    check(lambda space, seed: make_training(name, space, seed=seed))


def test_the_suite_sees_what_is_broken() -> None:
    class Forgetful(FairTraining):
        def archs(self, step: int, turn: Any) -> Any:
            return [tuple(int(torch.randint(n, ())) for n in self.space.num_options)]

    with pytest.raises(AssertionError):
        for check in TRAINING_CHECKS:
            check(lambda space, seed: Forgetful(space, seed=seed))


def test_a_fair_step_has_every_option_once() -> None:
    fair = FairTraining(NasBench201(), seed=3)
    for step in range(5):
        archs = fair.archs(step, NasBench201()[0])
        assert all(sorted(column) == [0, 1, 2, 3, 4] for column in zip(*archs, strict=True))
    choices = [Choice([nn.Identity() for _ in range(count)], name=f"c{count}") for count in (2, 5)]
    uneven = space_of(nn.Sequential(*choices, nn.Linear(2, 2)))
    for step in range(5):
        archs = FairTraining(uneven).archs(step, uneven[0])
        counts = Counter(arch[0] for arch in archs)
        assert len(archs) == 5 and max(counts.values()) - min(counts.values()) <= 1
        assert sorted(arch[1] for arch in archs) == [0, 1, 2, 3, 4]


def scene() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    with seeded_globally(0, "trainings"):
        network = SPACE.supernet(1, 3)
        return network, torch.randn(6, 1, 8, 8), torch.randint(3, (6,))


def test_gradients_of_a_fair_step_are_the_sum_of_its_childrens() -> None:
    network, x, y = scene()
    way = make_training("fair", SPACE, seed=1)
    archs = way.archs(7, SPACE[0])
    way.loss(network, x, y, archs, nn.functional.cross_entropy).backward()
    found = {name: param.grad.clone() for name, param in network.named_parameters() if param.grad is not None}
    expected: dict[str, torch.Tensor] = {}
    for arch in archs:
        network.zero_grad()
        nn.functional.cross_entropy(network(x, arch), y).backward()
        for name, param in network.named_parameters():
            if param.grad is not None:
                expected[name] = expected.get(name, torch.zeros_like(param)) + param.grad
    assert found.keys() == expected.keys() == dict(network.named_parameters()).keys(), "every option got a gradient"
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name])


def test_a_sandwich_has_the_ends_of_the_space_and_is_taught_by_the_largest() -> None:
    network, x, y = scene()
    sizes = {arch: count_parameters(network.child(arch)) for arch in SPACE}  # type: ignore[operator]
    way = SandwichTraining(SPACE, seed=0, num_between=1)
    archs = way.archs(0, SPACE[0])
    assert len(archs) == way.children_per_step == 3
    assert sizes[archs[0]] == max(sizes.values()) and sizes[archs[1]] == min(sizes.values())
    network.eval()  # batch norm would see each child's batch in turn
    loss = way.loss(network, x, y, archs, nn.functional.cross_entropy)
    teacher = torch.softmax(network(x, archs[0]), 1)
    others = [-(teacher * torch.log_softmax(network(x, arch), 1)).sum(1).mean() for arch in dict.fromkeys(archs[1:])]
    torch.testing.assert_close(loss, nn.functional.cross_entropy(network(x, archs[0]), y) + sum(others))


def test_losses_of_children_are_those_of_plain_passes() -> None:
    network, x, y = scene()
    archs = list(SPACE)
    found = score_losses(network, archs, x, y, nn.functional.cross_entropy)
    network.eval()
    with torch.no_grad():
        expected = [-float(nn.functional.cross_entropy(network(x, arch), y)) for arch in archs]
    assert found == pytest.approx(expected, rel=1e-5)


def test_averaged_weights_are_those_that_a_recipe_would_put(tmp_path: Path) -> None:
    """A training whose recipe averages ends with the average; one that only scores by it has the same scores."""
    data = load("digits", train_size=60, eval_size=40)
    arguments: dict[str, Any] = {
        "name": "one", "trained": None, "scored": list(range(8)), "order": "shuffled", "num_shared_cells": None,
        "weights_seed": 1, "order_seed": 2, "batches_seed": 3, "last_epochs": 1, "last_steps": 1,
    }  # fmt: skip
    recipe = Recipe(epochs=2, batch_size=20, learning_rate=0.05)
    found = train_instance(SupernetSetup(SPACE, data, recipe), **arguments, average="ema:0.8")
    setup = SupernetSetup(SPACE, data, replace(recipe, average="ema:0.8"), folder=tmp_path)
    train_instance(setup, **arguments)
    network = load_network(setup, arguments)
    assert found["by_average"] == score_children(network, list(SPACE), data.validation.x, data.validation.y)
    plain = train_instance(SupernetSetup(SPACE, data, recipe), **arguments)
    assert {key: value for key, value in found.items() if key != "by_average"} == plain, "scoring changes no training"


def test_rank_compares_ways_to_train_and_to_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{SPACE.name(arch)},0.{place}" for place, arch in enumerate(SPACE)]
    (tmp_path / "truth.csv").write_text("\n".join(["arch,acc", *lines]))
    main([
        "rank", *TINY, "--truth", str(tmp_path / "truth.csv"), "--also", "training=fair", "--also",
        "training=sandwich:num_between=0", "--average-weights", "ema:0.9", "--out", str(tmp_path / "run"),
    ])  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert {"loss", "averaged weights", "reestimated", "fine-tuned"} <= set(result["correlation"])
    assert [row["variation"] for row in result["variations"]] == ["training=fair", "training=sandwich:num_between=0"]
    assert all(row["gain"]["low"] <= row["gain"]["value"] <= row["gain"]["high"] for row in result["variations"])
    assert result["recommendation"][-1].startswith("Use ")
    records = {record["key"]: record for record in read_records(tmp_path / "run")}
    # Two children a step and half the epochs: the same cost.
    assert len(records["instance-0/group-0"]["loss"]) == 4
    assert len(records["training=fair/instance-0/group-0"]["loss"]) == 2


def test_a_supernet_that_is_trained_already_is_only_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rank", *TINY, "--truth", "none", "--out", str(tmp_path / "first")])
    first = json.loads(capsys.readouterr().out)
    folder = tmp_path / "first" / "checkpoints" / "instance-0" / "group-0"
    main(["rank", *TINY, "--truth", "none", "--weights", str(folder), "--out", str(tmp_path / "again")])
    again = json.loads(capsys.readouterr().out)
    assert again["accuracy"]["last"] == first["accuracy"]["last"]
    assert not (tmp_path / "again" / "checkpoints").exists() and again["instances"] == 1
    with pytest.raises(SystemExit) as caught:
        other = [text.replace("sep_conv_3x3", "sep_conv_5x5") for text in TINY]
        main(["rank", *other, "--truth", "none", "--weights", str(folder), "--out", str(tmp_path / "other")])
    assert caught.value.code == 2 and "must be those of the space's supernet" in capsys.readouterr().err


def test_several_children_a_step_need_one_supernet(tmp_path: Path) -> None:
    recipe = Recipe(epochs=1)
    for sharing in ("groups:2:similar", "prefix:1"):
        with pytest.raises(ConfigError, match="needs them in one supernet"):
            Plan(training="fair", sharing=sharing).check(SPACE, recipe)
    Plan(training="uniform", sharing="groups:2:similar").check(SPACE, recipe)
    with pytest.raises(ConfigError, match="not trained again"):
        Plan(weights=("x",), also=("momentum=0",))


def test_one_of_ones_own_by_its_class(tmp_path: Path) -> None:
    class Pairs(SupernetTraining):
        """The child and the one after it."""

        @property
        def children_per_step(self) -> int:
            return 2

        def archs(self, step: int, turn: Any) -> Any:
            return [turn, self.space[(self.space.index(turn) + 1) % len(self.space)]]

    for check in TRAINING_CHECKS:
        check(lambda space, seed: Pairs(space, seed=seed))
    data = load("digits", train_size=40, eval_size=20)
    setup = SupernetSetup(SPACE, data, Recipe(epochs=1), training=Pairs)
    network = setup.new_supernet(0)
    way = make_training(Pairs, SPACE)
    loss = way.loss(network, data.train.x[:4], data.train.y[:4], way.archs(0, SPACE[0]), nn.functional.cross_entropy)
    assert loss.requires_grad and len(score_children(network, list(SPACE), data.test.x, data.test.y)) == 8
