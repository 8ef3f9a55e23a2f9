"""Growing a network wider by one method, and the full network beside it: the trainings behind Figures 4 and 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from ramet.costs import count_parameters
from ramet.data import DataSet
from ramet.execution import WorkItem, pulse
from ramet.growth import NETWORKS, Budget, GrowthStep, grow, make_method
from ramet.ranking.metrics import Floats
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import accuracy, fit
from ramet_papers.experiment import Experiment, Setup
from ramet_papers.firefly.clock import Timed
from ramet_papers.firefly.presets import WidthPreset
from ramet_papers.recorded import digest_of

FULL = "full"
"""The full-width network, trained for as many epochs as a growth has in all."""


WidthSetup: TypeAlias = Setup[DataSet, WidthPreset]


def new_network(setup: WidthSetup, width: int | list[int], seed: int) -> nn.Module:
    """A fresh network; its weights follow from the seed."""
    preset, data = setup.preset, setup.data
    sizes = (data.in_channels, data.image_size, data.num_classes)
    with seeded_globally(seed, "weights"):
        network = NETWORKS[preset.network](*sizes, width=width, depth=preset.depth, **preset.options)
    return network.to(data.train.x.device)


def grow_wider(setup: WidthSetup, *, method: str, options: Mapping[str, Any], seed: int, num_growths: int) -> Json:
    """Grow a thin network step by step, and measure it after each training.

    All methods have the same seed, of the weights, the mini-batches and the growth.

    Returns:
        For each size the parameters, the accuracy on validation and on test images; and each growth's seconds.
    """
    preset, test = setup.preset, setup.data.test
    network = new_network(setup, [preset.start] * preset.depth, seed)
    timed = Timed(make_method(method, **options))
    sizes: list[int] = []
    scores: list[float] = []
    tested: list[float] = []

    def measure(step: GrowthStep) -> None:
        # Test images are only looked at here: growth itself sees training and validation images.
        sizes.append(count_parameters(network))
        scores.append(float(step.score or 0.0))
        tested.append(accuracy(network, test.x, test.y))
        pulse(len(sizes) / (num_growths + 1))

    budget = Budget(preset.unit, 1e12, step=preset.step)
    how: Json = {"settings": preset.settings, "max_steps": num_growths, "seed": seed}
    grow(network, setup.data, budget, timed, in_place=True, after_step=measure, **how)
    return {"params": sizes, "validation": scores, "test": tested, "seconds": timed.seconds}


def train_full(setup: WidthSetup, *, seed: int) -> Json:
    """The full-width network, trained for as many epochs as a grown one in all."""
    preset, data = setup.preset, setup.data
    network = new_network(setup, preset.full, seed)
    epochs = preset.settings.epochs * (preset.num_growths + 1)
    settings = replace(preset.settings, epochs=epochs)
    fit(network, data.train.x, data.train.y, settings, seed=derive_seed(seed, "full"))
    return {"params": [count_parameters(network)], "test": [accuracy(network, data.test.x, data.test.y)]}


def measure_curves(
    experiment: Experiment, preset: WidthPreset, rows: Mapping[str, tuple[str, Mapping[str, Any]]], num_growths: int
) -> dict[str, Curve]:
    """The trainings of all seeds for each row: a name, and the method and options behind it."""
    setup: WidthSetup = Setup(experiment.workspace.load(preset.data, preset.data_options), preset)
    config = preset.asked("methods", "timed", "seeds") | {"data_fingerprint": setup.data.fingerprint()}
    seeds = [derive_seed(experiment.workspace.seed, "width", number) for number in range(preset.seeds)]

    def task(method: str, options: Mapping[str, Any], number: int) -> WorkItem:
        if method == FULL:
            return WorkItem(f"full/seed-{number}", train_full, {"seed": seeds[number]}, cost=2.0)
        key = f"{method}-{digest_of(dict(options))}/growths-{num_growths}/seed-{number}"
        asked: Json = {"method": method, "options": dict(options), "seed": seeds[number], "num_growths": num_growths}
        return WorkItem(key, grow_wider, asked)

    tasks = {name: [task(*row, number) for number in range(preset.seeds)] for name, row in rows.items()}
    found = experiment.trials(preset.network, config, setup).finish(tasks, "growing wider")
    return {name: Curve.of(results) for name, results in found.items()}


@dataclass(frozen=True)
class Curve:
    """Accuracy against size, over seeds."""

    params: Floats  # shape [seeds, sizes]
    test: Floats  # the same
    seconds: Floats  # of the growth steps, shape [seeds, growths]

    @classmethod
    def of(cls, results: list[Json]) -> Curve:
        """From the results of trainings, one a seed. A growth that ended early keeps its last size."""
        longest = max(len(result["params"]) for result in results)

        def rows(field: str, length: int) -> Floats:
            lists = [list(result.get(field) or [0.0]) for result in results]
            return np.asarray([row + row[-1:] * (length - len(row)) for row in lists], dtype=float)

        return cls(rows("params", longest), rows("test", longest), rows("seconds", max(longest - 1, 1)))

    def at(self, params: Floats) -> Floats:
        """The accuracy of each seed at these sizes, shape [seeds, sizes]; between sizes a line in their logarithm.

        Nothing is made up beyond the ends: a size outside gets the accuracy of the nearest end.
        """
        pairs = zip(self.params, self.test, strict=True)
        return np.asarray([np.interp(np.log(params), np.log(own), test) for own, test in pairs])
