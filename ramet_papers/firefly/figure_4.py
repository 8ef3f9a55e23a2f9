"""Figures 4 and 6: wider networks, accuracy against size and the time of a growth step; VGG-like and MobileNet-like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import count, duration, percent, times
from ramet.seeding import numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.firefly.judges import WidthFigures, judge_f3, judge_f4
from ramet_papers.firefly.presets import PRESETS, WidthPreset
from ramet_papers.firefly.width import FULL, Curve, measure_curves

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
