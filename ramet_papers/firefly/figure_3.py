"""Figures 3a and 3b: the toy of radial basis functions, grown by each method and with more and more new candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import significant
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.firefly.judges import COMPARED_AT, F1Figures, F2Figures, judge_f1, judge_f2
from ramet_papers.firefly.presets import PRESETS, FireflyPreset
from ramet_papers.firefly.rbf import RbfSettings, grow_rbf
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Outcome, Workspace

METHODS = {
    "firefly": "Firefly",
    "firefly-split": "Firefly (split)",
    "splitting": "Splitting",
    "random-split": "RandSearch (split)",
    "random": "RandSearch (split+new)",
    "scratch": "Scratch",
}
"""The methods of figure 3a, and what the paper calls them."""

PAPER_ENDS = {"firefly": "to zero", "random": "to zero", "splitting": "stuck", "firefly-split": "stuck",
              "random-split": "stuck"}  # fmt: skip
"""What section 3 says of each curve; it gives no figures."""

REPETITIONS_A_TASK = 10
"""True networks that one task trains together: a stack is quicker than one by one, a task is what may be lost."""


def grow_toy(context: None, *, method: str, num_new: int, settings: Json, repetitions: Sequence[int]) -> Json:
    """One method on some repetitions, as a task."""
    curves = grow_rbf(method, RbfSettings(**settings), num_new, repetitions)
    return {"losses": curves.tolist()}


def measure_curves(workspace: Workspace, preset: FireflyPreset, wanted: Sequence[tuple[str, int]]) -> list[Floats]:
    """The losses of methods with so many new candidates, each of shape [repetitions, sizes].

    Both figures keep them in one run, so that what they have in common is measured once.
    """
    config = {**asdict(preset.toy), "seed": workspace.seed}
    groups = [
        list(range(first, min(first + REPETITIONS_A_TASK, preset.toy.repetitions)))
        for first in range(0, preset.toy.repetitions, REPETITIONS_A_TASK)
    ]
    tasks = {
        (method, num_new): [
            WorkItem(
                f"{method}/new-{num_new}/repetitions-{group[0]}-{group[-1]}",
                grow_toy,
                {"method": method, "num_new": num_new, "settings": config, "repetitions": group},
            )
            for group in groups
        ]
        for method, num_new in wanted
    }
    path = workspace.runs / f"firefly-{preset.name}" / f"toy-{digest_of(config)}"
    with open_recorded(path, "reproduction", config) as run:
        every = [task for row in tasks.values() for task in row]
        found = finish_tasks(run, workspace.executor, every, None, label="growing the toy")
    return [np.concatenate([np.asarray(found[task.key]["losses"]) for task in tasks[key]]) for key in wanted]


def figure_3a(workspace: Workspace, preset_name: str) -> Outcome:
    """Mean training loss against the number of neurons for each method; claim F1."""
    preset = PRESETS[preset_name]
    wanted = [(name, preset.toy_candidates if name in ("firefly", "random") else 0) for name in METHODS]
    curves = dict(zip(METHODS, measure_curves(workspace, preset, wanted), strict=True))
    table = _table(
        {METHODS[name]: curve for name, curve in curves.items()},
        [PAPER_ENDS.get(name) for name in METHODS],
        f"Figure 3a: training loss, mean over {preset.toy.repetitions} true networks",
        numpy_generator(workspace.seed, "figure-3a"),
    )
    judged = {name: curves[name] for name in ("firefly", "splitting", "random")}
    claim = judge_f1(F1Figures(command=_command("figure-3a", preset), setting=_setting(preset), **judged))
    return Outcome("Firefly, Figure 3a", [table], [claim], [_setting(preset)]).kept(workspace.results)


def figure_3b(workspace: Workspace, preset_name: str) -> Outcome:
    """Firefly with different numbers of new candidates; claim F2."""
    preset = PRESETS[preset_name]
    counts = preset.toy_counts
    wanted = [("firefly" if count else "firefly-split", count) for count in counts]
    curves = dict(zip(counts, measure_curves(workspace, preset, wanted), strict=True))
    table = _table(
        {f"m' = {count}": curve for count, curve in curves.items()},
        ["stuck" if count == 0 else "saturated" if count == 5 else None for count in counts],
        f"Figure 3b: Firefly by its new candidates, training loss, mean over {preset.toy.repetitions} true networks",
        numpy_generator(workspace.seed, "figure-3b"),
    )
    claim = judge_f2(F2Figures(command=_command("figure-3b", preset), setting=_setting(preset), curves=curves))
    return Outcome("Firefly, Figure 3b", [table], [claim], [_setting(preset)]).kept(workspace.results)


def _table(curves: Mapping[str, Floats], paper: list[str | None], title: str, generator: np.random.Generator) -> Table:
    rows: list[list[Any]] = []
    num_sizes = min(len(curve[0]) for curve in curves.values())
    sizes = [size for size in (1, 2, 3, 5, 8, 10, 12) if size <= num_sizes]
    for (name, curve), word in zip(curves.items(), paper, strict=True):
        means = [float(curve[:, size - 1].mean()) for size in sizes]
        at = curve[:, _place(curve)]
        interval = mean_interval(at, generator=generator).interval_text(significant)
        rows.append([name, word, *means, interval, float(np.median(at))])
    columns: list[Column | str] = ["method", "paper", *[Column(f"{size} neurons", significant) for size in sizes]]
    last = min(COMPARED_AT, num_sizes)
    return Table(
        [*columns, f"95 % interval at {last}", Column(f"median at {last}", significant)],
        rows,
        title=title,
    )


def _place(curve: Floats) -> int:
    return min(COMPARED_AT, int(curve.shape[1])) - 1


def _command(figure: str, preset: FireflyPreset) -> str:
    return f"ramet reproduce firefly/{figure} --preset {preset.name}"


def _setting(preset: FireflyPreset) -> str:
    toy = preset.toy
    return (
        f"{toy.repetitions} true networks of 15 neurons, 1,000 points, {toy.num_updates:,} updates between two growths "
        f"for every method, {toy.num_candidate_updates} more for the candidates of Firefly and of random search. "
        f"Adam {toy.learning_rate:g} annealed, epsilon {toy.epsilon:g}, chosen on other true networks; the paper names "
        "neither of the two."
    )
