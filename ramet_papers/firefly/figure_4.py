"""Figures 4 and 6: wider networks, accuracy against size and the time of a growth step; VGG-like and MobileNet-like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from ramet.costs import count_parameters
from ramet.data import DataSet
from ramet.execution import WorkItem, pulse
from ramet.growth import NETWORKS, Budget, GrowthStep, grow, make_method
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import count, duration, percent, times
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator, seeded_globally
from ramet.training import accuracy, fit
from ramet_papers.claims import Claim
from ramet_papers.experiment import Experiment, Outcome, Row, Setup, tabled
from ramet_papers.firefly.clock import Timed
from ramet_papers.firefly.judges import WidthFigures, judge_f3, judge_f4
from ramet_papers.firefly.presets import PRESETS, WidthPreset
from ramet_papers.recorded import digest_of

NAMES = {
    "firefly": "Firefly",
    "splitting": "Splitting (steepest)",
    "net2net": "Net2Net",
    "random": "random splits",
    "nash": "NASH",
}
"""The methods as the figures call them."""

Mean = Callable[[Floats], Estimate]

COUNTED = (
    "All methods have the same weights and mini-batches at first and the same epochs between growths. What candidates "
    "are trained for comes on top and is part of a step's time: an epoch of Firefly's step sizes and directions, the "
    "network's own weights fixed; NASH's neighbours, of which the best keeps its weights."
)


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


def figure_4a(experiment: Experiment) -> Outcome:
    """Test accuracy against the size of a VGG-like network for each method; claim F3."""
    return _grown(experiment, PRESETS[experiment.preset_name].vgg, "Figure 4a", judge_f3)


def figure_6(experiment: Experiment) -> Outcome:
    """The same on a MobileNet-like network; claim F4."""
    return _grown(experiment, PRESETS[experiment.preset_name].mobilenet, "Figure 6", judge_f4)


def figure_4b(experiment: Experiment) -> Outcome:
    """The time of a growth step of the VGG-like network for each method."""
    preset = PRESETS[experiment.preset_name].vgg
    rows: dict[str, Any] = {NAMES[name]: (name, options) for name, options in preset.methods.items()}
    curves = measure_curves(experiment, preset, rows | dict(preset.timed), 1)
    table = _times(curves, "Figure 4b: time of the first growth step", experiment.mean)
    return Outcome("Firefly, Figure 4b", [table], [], [preset.note, COUNTED])


def _grown(experiment: Experiment, preset: WidthPreset, title: str, judge: Callable[[WidthFigures], Claim]) -> Outcome:
    rows: dict[str, Any] = {name: (name, options) for name, options in preset.methods.items()}
    curves = measure_curves(experiment, preset, {**rows, FULL: (FULL, {})}, preset.num_growths)
    mean = partial(mean_interval, generator=numpy_generator(experiment.workspace.seed, title))
    grown = {NAMES[name]: curve for name, curve in curves.items() if name != FULL}
    tables = [_accuracies(curves, title, mean), _times(grown, f"{title}: time of a growth step", mean)]
    claim = judge(width_figures(curves, preset, experiment.command))
    return Outcome(f"Firefly, {title}", tables, [claim], [reached_full(curves), COUNTED])


def _accuracies(curves: Mapping[str, Curve], title: str, mean: Mean) -> Table:
    """A row a size: Firefly's accuracy, and how far it is above each of the others at as many parameters."""
    ours, full = curves["firefly"], curves[FULL]
    others = [name for name in curves if name not in ("firefly", FULL)]
    sizes = ours.params.mean(axis=0)
    at = {name: curves[name].at(sizes) for name in ["firefly", *others]}
    rows: list[list[Any]] = []
    for place, size in enumerate(sizes):
        row: list[Any] = [round(float(size)), float(size / full.params.mean())]
        row.append(mean(at["firefly"][:, place]))
        for name in others:
            gap = at["firefly"][:, place] - at[name][:, place]
            row += [float(at[name][:, place].mean()), mean(100 * gap).text(lambda value: f"{value:+.1f}")]
        rows.append(row)
    rows.append([round(float(full.params.mean())), 1.0, mean(full.test[:, -1]), *[None] * (2 * len(others))])
    columns: list[Column | str] = [Column("parameters", count), Column("of full", percent), Column("Firefly", percent)]
    for name in others:
        columns += [Column(NAMES[name], percent), f"Firefly minus {NAMES[name]}, points"]
    seeds = len(ours.test)
    caption = "The last row is the full network. Sizes between two of a method's own lie on a line between them."
    return Table(columns, rows, title=f"{title}: test accuracy at equal parameters, {seeds} seeds", caption=caption)


def _times(curves: Mapping[str, Curve], title: str, mean: Mean) -> Table:
    reference = curves[NAMES["splitting"]].seconds.mean()
    rows: list[Row] = [
        {
            "method": name,
            Column("CPU time of a step", duration): mean(curve.seconds.mean(axis=1)),
            Column("of steepest splitting's", times): float(curve.seconds.mean() / reference),
        }
        for name, curve in curves.items()
    ]
    return tabled(rows, title)


def gaps(curves: Mapping[str, Curve], other: str) -> Floats:
    """How far Firefly is above another method at each size that it grew to, shape [seeds, growths]."""
    sizes = curves["firefly"].params.mean(axis=0)
    difference: Floats = curves["firefly"].at(sizes) - curves[other].at(sizes)
    return difference[:, 1:]  # before the first growth all are the same network


def reached_full(curves: Mapping[str, Curve]) -> str:
    """The size at which Firefly's mean accuracy reaches the full network's, in a sentence."""
    ours, full = curves["firefly"], curves[FULL]
    goal, share = float(full.test.mean()), ours.params.mean(axis=0) / full.params.mean()
    reached = np.flatnonzero(ours.test.mean(axis=0) >= goal)
    if len(reached):
        size, part = float(ours.params.mean(axis=0)[reached[0]]), float(share[reached[0]])
        return (
            f"Firefly reaches the full network's accuracy ({goal:.1%}) at {count(size)} parameters, {part:.0%} of it."
        )
    best = float(ours.test.mean(axis=0).max())
    return (
        f"Firefly does not reach the full network's accuracy ({goal:.1%}) within {share[-1]:.0%} of its parameters: "
        f"{best:.1%} (the paper: comparable at 4 %)."
    )


def width_figures(curves: Mapping[str, Curve], preset: WidthPreset, command: str) -> WidthFigures:
    """What claims F3 and F4 are judged by, from the curves of the methods of ``NAMES`` and of the full network."""
    return WidthFigures(
        command=command,
        setting=f"{preset.note} {reached_full(curves)}",
        gaps={NAMES[name]: gaps(curves, name) for name in curves if name not in ("firefly", FULL)},
        flops_gaps=None,  # multiply-adds are not recorded
        seconds=curves["firefly"].seconds,
        splitting_seconds=curves["splitting"].seconds,
    )
