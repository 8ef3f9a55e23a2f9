"""Every loop that trains takes the whole recipe: optimizer, schedule, loss, transform and micro-batches."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.continual import train
from ramet.continual.training import classification
from ramet.data import DataSet, load
from ramet.errors import ConfigError, RunError
from ramet.execution.ranks import Ranks
from ramet.growth import grow
from ramet.ranking.instance import fine_tune, train_instance
from ramet.ranking.setup import SupernetSetup
from ramet.searching import RelaxedSearch, Search, SearchPlan
from ramet.searching.distributed import RankedTraining
from ramet.spaces import Cells64
from ramet.training import Recipe, fit

SPACE = Cells64(channels=2, num_cells=1)
PLAN = SearchPlan(
    epochs=1, warmup_epochs=0, models_per_epoch=2, batches_per_model=3, strategy="random", strategy_steps=1,
    archs_per_step=1, reward_samples=8, error_samples=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def digits() -> DataSet:
    return load("digits", train_size=24, eval_size=20)


class Notes:
    """A recipe's functions, and what each was called with."""

    def __init__(self) -> None:
        self.made, self.seeds, self.rates, self.sizes = 0, [], [], []

    def optimizer(self, groups: list[dict]) -> torch.optim.Optimizer:
        self.made += 1
        return torch.optim.AdamW(groups)

    def schedule(self, step: int, num_steps: int) -> float:
        self.rates.append((step, num_steps))
        return 0.5

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad:
            self.sizes.append(len(targets))
        return cross_entropy(outputs, targets)

    def transform(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        self.seeds.append(generator.initial_seed())
        return x.flip(-1), y

    def recipe(self, **changes) -> Recipe:
        values = {
            "epochs": 2, "batch_size": 8, "learning_rate": 0.02, "optimizer": self.optimizer, "loss": self.loss,
            "schedule": self.schedule, "augment": self.transform, "accumulate": 2,
        }  # fmt: skip
        return Recipe(**(values | changes))


def run_fit(digits: DataSet, recipe: Recipe, folder: Path) -> None:
    fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), digits.train.x, digits.train.y, recipe, seed=0)


def run_growth(digits: DataSet, recipe: Recipe, folder: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2), nn.ReLU(), nn.Linear(2, 10))
    grow(network, digits, "neurons=3,step=1", "splitting", settings=recipe, max_steps=0)


def run_search(digits: DataSet, recipe: Recipe, folder: Path) -> None:
    Search(SupernetSetup(SPACE, digits, recipe), PLAN).run()


def run_darts(digits: DataSet, recipe: Recipe, folder: Path) -> None:
    RelaxedSearch(
        SupernetSetup(SPACE, digits, recipe), replace(PLAN, epochs=2, warmup_epochs=1, strategy="darts")
    ).run()


def run_learning(digits: DataSet, recipe: Recipe, folder: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    train(network, *classification(network, digits.train, recipe), recipe, seed=0)


def run_fine_tuning(digits: DataSet, recipe: Recipe, folder: Path) -> None:
    plain = Recipe(epochs=1, batch_size=8)
    instance = {
        "name": "a", "trained": None, "scored": [0], "order": "shuffled", "num_shared_cells": None, "weights_seed": 0,
        "order_seed": 0, "batches_seed": 0, "last_epochs": 1, "last_steps": 1,
    }  # fmt: skip
    train_instance(SupernetSetup(SPACE, digits, plain, folder=folder), **instance)
    # As many steps as the other loops take; the snapshot is of a training of one epoch.
    setup = SupernetSetup(SPACE, digits, replace(recipe, epochs=1), folder=folder)
    fine_tune(setup, instance=instance, indices=[3], seed=0, score_after=[6], learning_rate=0.02)


@pytest.mark.parametrize("run", [run_fit, run_growth, run_learning, run_search, run_darts, run_fine_tuning])
def test_a_loop_takes_the_whole_recipe(run, digits, tmp_path):
    notes = Notes()
    run(digits, notes.recipe(), tmp_path)
    assert notes.made == 1
    assert len(notes.seeds) == 6 and len(set(notes.seeds)) == 6, "once a step, with a generator of the step's own"
    num_steps = 3 if run is run_darts else 6  # after its first epoch DARTS also takes the loss on validation images
    assert notes.sizes[: 2 * num_steps] == [4] * 2 * num_steps, "each mini-batch of 8 is taken in two halves"
    if run is not run_fine_tuning:  # whose learning rate is constant
        assert notes.rates == [(step, 6) for step in range(6)]


@pytest.mark.parametrize("run", [run_fit, run_growth, run_learning, run_search, run_darts, run_fine_tuning])
def test_groups_keep_the_learning_rates_that_they_were_made_with(run, digits, tmp_path):
    made = []

    def in_two_groups(groups: list[dict]) -> torch.optim.Optimizer:
        (group,) = groups
        first, *rest = group["params"]
        quick = {"params": rest, "lr": 10 * group["lr"]}
        made.append(torch.optim.AdamW([{**group, "params": [first]}, quick]))
        return made[-1]

    run(digits, Recipe(epochs=2, batch_size=8, learning_rate=0.02, optimizer=in_two_groups), tmp_path)
    slow, quick = (group["lr"] for group in made[0].param_groups)
    assert 0 < slow <= 0.02 and quick == pytest.approx(10 * slow)


@pytest.mark.parametrize("run", [run_fit, run_growth, run_learning, run_search, run_darts, run_fine_tuning])
def test_classes_that_are_mixed_are_classes_still(run, digits, tmp_path, monkeypatch):
    """Their targets are shares, which are broken numbers, and no reason to take the squared error."""
    monkeypatch.setattr("ramet.training.losses.squared_error", None)
    run(digits, Recipe(epochs=2, batch_size=8, learning_rate=0.02, augment="mixup:0.5"), tmp_path)


def test_candidates_of_a_growth_are_trained_on_transformed_batches(digits):
    notes = Notes()
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2), nn.ReLU(), nn.Linear(2, 10))
    options = {"num_neighbours": 2, "num_steps": 3}
    grow(network, digits, "neurons=4,step=1", "nash", method_options=options, settings=notes.recipe(), max_steps=1)
    first, trial, again, last = notes.seeds[:6], notes.seeds[6:9], notes.seeds[9:12], notes.seeds[12:]
    assert trial == again, "NASH trains two networks, on the same batches"
    assert len(last) == 6 and len({*first, *trial, *last}) == 15


def test_ranks_take_mini_batches_whole():
    network = nn.Linear(2, 2)
    together = RankedTraining(network, Ranks(0, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match="accumulate must be 1, but got 2"):
        together.step(optimizer, Recipe(accumulate=2))
    together.step(optimizer, Recipe())


def test_a_relaxed_search_that_diverges_says_so(digits):
    broken = Recipe(epochs=1, batch_size=8, loss=lambda outputs, targets: outputs.sum() * math.nan)
    with pytest.raises(RunError, match="must stay finite, but is nan in step 0"):
        run_darts(digits, broken, Path())
