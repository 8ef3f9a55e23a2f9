"""Growing a network wider by one method, and the full network beside it: the trainings behind Figures 4 and 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from ramet.costs import count_parameters
from ramet.data import DataSet, load, on_device
from ramet.execution import WorkItem, pulse
from ramet.growth import NETWORKS, Budget, GrowthStep, grow, make_method
from ramet.ranking.metrics import Floats
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import accuracy, fit
from ramet_papers.firefly.clock import Timed
from ramet_papers.firefly.presets import WidthPreset
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Workspace

FULL = "full"
"""The full-width network, trained for as many epochs as a growth has in all."""


@dataclass(frozen=True)
class WidthSetup:
    """What every training of a figure has in common: sent to each worker once."""

    data: DataSet
    preset: WidthPreset

    def network(self, width: int | list[int], seed: int) -> nn.Module:
        """A fresh network; its weights follow from the seed."""
        make = NETWORKS[self.preset.network]
        data = self.data
        with seeded_globally(seed, "weights"):
            network = make(
                data.in_channels,
                data.image_size,
                data.num_classes,
                width=width,
                depth=self.preset.depth,
                **self.preset.options,
            )
        return network.to(data.train.x.device)


def grow_wider(setup: WidthSetup, *, method: str, options: Mapping[str, Any], seed: int, num_growths: int) -> Json:
    """Grow a thin network step by step, and measure it after each training.

    Args:
        setup: the data and the preset.
        method: of :data:`ramet.growth.METHODS`.
        options: of the method.
        seed: of the weights, the mini-batches and the growth; the same for all methods.
        num_growths: how often it grows.

    Returns:
        For each size the parameters, the accuracy on validation and on test images; and each growth's seconds.
    """
    preset, test = setup.preset, setup.data.test
    network = setup.network([preset.start] * preset.depth, seed)
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
    grow(
        network,
        setup.data,
        budget,
        timed,
        settings=preset.settings,
        max_steps=num_growths,
        seed=seed,
        in_place=True,
        after_step=measure,
    )
    return {"params": sizes, "validation": scores, "test": tested, "seconds": timed.seconds}


def train_full(setup: WidthSetup, *, seed: int) -> Json:
    """The full-width network, trained for as many epochs as a grown one in all."""
    preset, data = setup.preset, setup.data
    network = setup.network(preset.full, seed)
    epochs = preset.settings.epochs * (preset.num_growths + 1)
    settings = replace(preset.settings, epochs=epochs)
    fit(network, data.train.x, data.train.y, settings, seed=derive_seed(seed, "full"))
    return {"params": [count_parameters(network)], "test": [accuracy(network, data.test.x, data.test.y)]}


class WidthTrials:
    """The trainings of a width experiment: one run directory, named by what is asked.

    Args:
        workspace: where the reproduction works.
        preset: of the experiment.
        name: the preset's own name.
    """

    def __init__(self, workspace: Workspace, preset: WidthPreset, name: str) -> None:
        self.workspace, self.preset = workspace, preset
        data = load(preset.data, **preset.data_options, data_dir=workspace.data_dir, seed=workspace.seed)
        self.setup = WidthSetup(on_device(data, workspace.device), preset)
        asked = {
            key: value for key, value in asdict(preset).items() if key not in ("note", "methods", "timed", "seeds")
        }
        self.config = {**asked, "data_fingerprint": data.fingerprint(), "seed": workspace.seed}
        self.path = workspace.runs / f"firefly-{name}" / f"{preset.network}-{digest_of(self.config)}"

    def _task(self, method: str, options: Mapping[str, Any], number: int, num_growths: int) -> WorkItem:
        seed = derive_seed(self.workspace.seed, "width", number)
        if method == FULL:
            return WorkItem(f"full/seed-{number}", train_full, {"seed": seed}, cost=2.0)
        key = f"{method}-{digest_of(dict(options))}/growths-{num_growths}/seed-{number}"
        arguments: Json = {"method": method, "options": dict(options), "seed": seed, "num_growths": num_growths}
        return WorkItem(key, grow_wider, arguments)

    def finish(self, rows: Mapping[str, tuple[str, Mapping[str, Any]]], num_growths: int) -> dict[str, list[Json]]:
        """The results of all seeds for each row: a name, and the method and options behind it."""
        tasks = {
            name: [self._task(method, options, number, num_growths) for number in range(self.preset.seeds)]
            for name, (method, options) in rows.items()
        }
        with open_recorded(self.path, "reproduction", self.config) as run:
            every = [task for row in tasks.values() for task in row]
            found = finish_tasks(run, self.workspace.executor, every, self.setup, label="growing wider")
        return {name: [found[task.key] for task in row] for name, row in tasks.items()}


@dataclass(frozen=True)
class Curve:
    """Accuracy against size, over seeds.

    Attributes:
        params: shape [seeds, sizes].
        test: the same.
        seconds: of the growth steps, shape [seeds, growths].
    """

    params: Floats
    test: Floats
    seconds: Floats

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
