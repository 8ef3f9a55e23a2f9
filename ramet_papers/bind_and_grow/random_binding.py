"""Figure 2: growth that follows similarity against random growth, at the same number of parameters.

Random growth binds a task to a random one and makes random layers anew, their number drawn too, as in the paper. What
is drawn for all tasks together has as many parameters as similarity took. A second comparison gives random growth the
same number for each task, which tells it how much each task needs, and, where layers have different sizes, even which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.bind_and_grow.judges import B1Figures, Guided, judge_b1
from ramet_papers.bind_and_grow.presets import PRESETS, BindingPreset
from ramet_papers.bind_and_grow.trials import (
    RULES,
    BindingSetup,
    grown,
    grown_at_random,
    open_run,
    run_alone,
    run_tasks,
    sizes_of,
)
from ramet_papers.workspace import Outcome, Workspace


def figure_2(workspace: Workspace, preset_name: str) -> Outcome:
    """Guided against random growth on several streams and networks; claim B1 is answered on the first, the paper's."""
    preset = PRESETS[preset_name]
    generator = numpy_generator(workspace.seed, "figure-2")
    measured: dict[tuple[str, str], _Measured] = {}
    with open_run(workspace, preset, "figure-2") as run:
        for label, stream_setting in preset.guided.items():
            setup = BindingSetup.of(
                workspace, preset, stream_setting, run.path / "networks" / label, preset.guided_seeds
            )
            references = run_alone(workspace, run, setup, label)
            for rule in RULES:
                measured[label, rule] = _measure(workspace, preset, setup, run, label, rule, references)
    rows: list[list[Any]] = []
    for (label, rule), result in measured.items():
        ahead = result.ahead()
        difference = mean_interval(ahead.in_all, generator=generator)
        stricter = mean_interval(ahead.for_each, generator=generator)
        rows.append(
            [
                f"{preset.guided[label].source}, {label}",
                rule,
                int(result.parameters.mean()),
                mean_interval(100 * result.guided.mean(axis=1), generator=generator),
                mean_interval(100 * result.random.mean(axis=1), generator=generator),
                difference,
                stricter,
            ]
        )
    columns: list[Column | str] = [
        "stream",
        "rule",
        "parameters",
        "gain by similarity, points",
        "by random growth",
        "difference",
        "difference, as large for each task",
    ]
    deltas = " and ".join(f"{delta:g}" for delta in preset.matched)
    title = f"Figure 2: test gain over the tasks alone, delta {deltas}, {preset.guided_seeds} seeds"
    claim = judge_b1(_figures(preset, measured))
    return Outcome("Learn to bind and grow, Figure 2", [Table(columns, rows, title=title)], [claim]).kept(
        workspace.results
    )


def _figures(preset: BindingPreset, measured: dict[tuple[str, str], _Measured]) -> B1Figures:
    first, (paper, own) = next(iter(preset.guided)), RULES
    return B1Figures(
        command=f"ramet reproduce bind-and-grow/figure-2 --preset {preset.name}",
        setting=preset.setting(preset.guided[first]),
        paper={label: measured[label, paper].ahead() for label in preset.guided},
        own={label: measured[label, own].ahead() for label in preset.guided},
        anew=measured[first, paper].anew,
    )


@dataclass(frozen=True)
class _Measured:
    """What a stream_setting shows; test gains are [seeds, coefficients], those of random growth means over draws.

    Args:
        guided: gains of growth by similarity.
        random: of random growth, as large in all.
        for_each: of random growth, as large for each task.
        parameters: of the first.
        anew: the share of tasks that have a layer anew by similarity, [layers].
    """

    guided: Floats
    random: Floats
    for_each: Floats
    parameters: Floats
    anew: Floats

    def ahead(self) -> Guided:
        """Points by which similarity is ahead, a mean over coefficients for each seed."""
        in_all, for_each = (100 * (self.guided - random).mean(axis=1) for random in (self.random, self.for_each))
        return Guided(in_all, for_each)


def _measure(
    workspace: Workspace,
    preset: BindingPreset,
    setup: BindingSetup,
    run: Run,
    label: str,
    rule: str,
    references: list[Json],
) -> _Measured:
    kind = f"{label}/{' '.join(RULES[rule].values())}"
    cells = [(number, delta) for number in range(preset.guided_seeds) for delta in preset.matched]
    tasks = [
        WorkItem(
            f"{kind}/guided/{number}/{delta:g}",
            grown,
            {"number": number, "delta": delta, "alone": references[number], "options": RULES[rule]},
        )
        for number, delta in cells
    ]
    guided = run_tasks(workspace, run, tasks, setup, "growth by similarity")
    random: list[Floats] = []
    shape = (preset.guided_seeds, len(preset.matched))
    for for_each in (False, True):
        tasks = [
            WorkItem(
                f"{kind}/random {'for each' if for_each else 'in all'}/{number}/{delta:g}/{draw}",
                grown_at_random,
                {
                    "number": number,
                    "draw": draw,
                    "sizes": sizes_of(setup, result["expanded"]),
                    "alone": references[number],
                    "for_each": for_each,
                },
            )
            for (number, delta), result in zip(cells, guided, strict=True)
            for draw in range(preset.draws)
        ]
        results = run_tasks(workspace, run, tasks, setup, "random growth")
        gains = np.array([result["test_gain"] for result in results])
        random.append(gains.reshape(*shape, preset.draws).mean(axis=2))
    ours = np.array([result["test_gain"] for result in guided]).reshape(shape)
    parameters = np.array([result["parameters"] for result in guided], dtype=float).reshape(shape)
    places = [places for result in guided for places in result["expanded"].values()]
    anew = np.array([np.mean([layer in own for own in places]) for layer in range(len(setup.skeleton.layers))])
    return _Measured(ours, random[0], random[1], parameters, anew)
