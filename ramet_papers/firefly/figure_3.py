"""Figures 3a and 3b: the toy of radial basis functions, grown by each method and with more and more new candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import significant
from ramet.runs.encoding import Json
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.firefly.judges import COMPARED_AT, F1Figures, F2Figures, judge_f1, judge_f2
from ramet_papers.firefly.presets import PRESETS, FireflyPreset
from ramet_papers.firefly.rbf import RbfSettings, grow_rbf

METHODS = {
    "firefly": ("Firefly", "to zero"),
    "firefly-split": ("Firefly (split)", "stuck"),
    "splitting": ("Splitting", "stuck"),
    "random-split": ("RandSearch (split)", "stuck"),
    "random": ("RandSearch (split+new)", "to zero"),
    "scratch": ("Scratch", None),
}
"""The methods of figure 3a, what the paper calls them, and what section 3 says of each curve; it gives no figures."""

REPETITIONS_A_TASK = 10
"""True networks that one task trains together: a stack is quicker than one by one, a task is what may be lost."""


def grow_toy(context: None, *, method: str, num_new: int, settings: Json, repetitions: Sequence[int]) -> Json:
    """One method on some repetitions, as a task."""
    curves = grow_rbf(method, RbfSettings(**settings), num_new, repetitions)
    return {"losses": curves.tolist()}


def measure_curves(experiment: Experiment, preset: FireflyPreset, wanted: Sequence[tuple[str, int]]) -> list[Floats]:
    """The losses of methods with so many new candidates, each of shape [repetitions, sizes].

    Both figures keep them in one run, so that what they have in common is measured once.
    """
    trials = experiment.trials("toy", asdict(preset.toy), None)
    numbers = list(range(preset.toy.repetitions))
    groups = [numbers[first : first + REPETITIONS_A_TASK] for first in numbers[::REPETITIONS_A_TASK]]
    tasks = {
        (method, num_new): [
            WorkItem(
                f"{method}/new-{num_new}/repetitions-{group[0]}-{group[-1]}",
                grow_toy,
                {"method": method, "num_new": num_new, "settings": trials.config, "repetitions": group},
            )
            for group in groups
        ]
        for method, num_new in wanted
    }
    found = trials.finish(tasks, "growing the toy")
    return [np.concatenate([np.asarray(result["losses"]) for result in found[key]]) for key in wanted]


def figure_3a(experiment: Experiment) -> Outcome:
    """Mean training loss against the number of neurons for each method; claim F1."""
    preset = PRESETS[experiment.preset_name]
    wanted = [(name, preset.toy_candidates if name in ("firefly", "random") else 0) for name in METHODS]
    curves = dict(zip(METHODS, measure_curves(experiment, preset, wanted), strict=True))
    table = _table(
        experiment,
        {METHODS[name]: curve for name, curve in curves.items()},
        f"Figure 3a: training loss, mean over {preset.toy.repetitions} true networks",
    )
    judged = {name: curves[name] for name in ("firefly", "splitting", "random")}
    claim = judge_f1(F1Figures(command=experiment.command, setting=_setting(preset), **judged))
    return Outcome("Firefly, Figure 3a", [table], [claim], [_setting(preset)])


def figure_3b(experiment: Experiment) -> Outcome:
    """Firefly with different numbers of new candidates; claim F2."""
    preset = PRESETS[experiment.preset_name]
    counts = preset.toy_counts
    wanted = [("firefly" if count else "firefly-split", count) for count in counts]
    curves = dict(zip(counts, measure_curves(experiment, preset, wanted), strict=True))
    words = {0: "stuck", 5: "saturated"}
    table = _table(
        experiment,
        {(f"m' = {count}", words.get(count)): curve for count, curve in curves.items()},
        f"Figure 3b: Firefly by its new candidates, training loss, mean over {preset.toy.repetitions} true networks",
    )
    claim = judge_f2(F2Figures(command=experiment.command, setting=_setting(preset), curves=curves))
    return Outcome("Firefly, Figure 3b", [table], [claim], [_setting(preset)])


def _table(experiment: Experiment, curves: Mapping[tuple[str, str | None], Floats], title: str) -> Table:
    num_sizes = min(len(curve[0]) for curve in curves.values())
    last = min(COMPARED_AT, num_sizes)
    rows: list[Row] = []
    for (name, word), curve in curves.items():
        at = curve[:, min(COMPARED_AT, curve.shape[1]) - 1]
        sizes = [size for size in (1, 2, 3, 5, 8, 10, 12) if size <= num_sizes]
        rows.append(
            {
                "method": name,
                "paper": word,
                **{Column(f"{size} neurons", significant): float(curve[:, size - 1].mean()) for size in sizes},
                f"95 % interval at {last}": experiment.mean(at).interval_text(significant),
                Column(f"median at {last}", significant): float(np.median(at)),
            }
        )
    return tabled(rows, title)


def _setting(preset: FireflyPreset) -> str:
    toy = preset.toy
    return (
        f"{toy.repetitions} true networks of 15 neurons, 1,000 points, {toy.num_updates:,} updates between two growths "
        f"for every method, {toy.num_candidate_updates} more for the candidates of Firefly and of random search. "
        f"Adam {toy.learning_rate:g} annealed, epsilon {toy.epsilon:g}, chosen on other true networks; the paper names "
        "neither of the two."
    )
