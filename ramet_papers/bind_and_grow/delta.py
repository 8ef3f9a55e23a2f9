"""Figure 6: the grow coefficient against size and accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.intervals import mean_interval
from ramet.reports import Column, Table
from ramet.seeding import numpy_generator
from ramet_papers.bind_and_grow.judges import B2Figures, judge_b2
from ramet_papers.bind_and_grow.presets import PRESETS
from ramet_papers.bind_and_grow.trials import BindingSetup, grown, open_run, run_alone, run_tasks
from ramet_papers.workspace import Outcome, Workspace


def figure_6(workspace: Workspace, preset_name: str) -> Outcome:
    """Average gain and parameters by delta; claim B2."""
    preset = PRESETS[preset_name]
    with open_run(workspace, preset, "figure-6") as run:
        setup = BindingSetup.of(workspace, preset, preset.split, run.path / "networks")
        references = run_alone(workspace, run, setup, "split")
        tasks = [
            WorkItem(
                f"delta/{delta:g}/{number}", grown, {"number": number, "delta": delta, "alone": references[number]}
            )
            for delta in preset.deltas
            for number in range(preset.seeds)
        ]
        results = run_tasks(workspace, run, tasks, setup, "growing at each delta")

    def values(name: str) -> Any:
        return np.array([result[name] for result in results], dtype=float).reshape(len(preset.deltas), preset.seeds)

    gain, test, parameters, paper = (values(key) for key in ("gain", "test_gain", "parameters", "paper_gain"))
    accuracy = values("test_accuracy")
    generator = numpy_generator(workspace.seed, "figure-6")
    rows: list[list[Any]] = [
        [
            delta,
            int(parameters[place].mean()),
            mean_interval(100 * test[place], generator=generator),
            100 * float(gain[place].mean()),
            100 * float(accuracy[place].mean()),
            float(paper[place].mean()),
        ]
        for place, delta in enumerate(preset.deltas)
    ]
    columns: list[Column | str] = [
        "delta",
        "parameters",
        "average gain, test, points",
        "validation, points",
        "test accuracy, %",
        "the paper's gain (less is better)",
    ]
    table = Table(columns, rows, title=f"Figure 6: {preset.split.source}, {preset.seeds} seeds")

    claim = judge_b2(
        B2Figures(
            command=f"ramet reproduce bind-and-grow/figure-6 --preset {preset.name}",
            setting=preset.setting(preset.split),
            deltas=preset.deltas,
            validation=gain,
            test=100 * test,
            parameters=parameters,
        )
    )
    notes = ["The paper's gain sums relative errors, so that less is better; ours is a difference of accuracies."]
    return Outcome("Learn to bind and grow, Figure 6", [table], [claim], notes).kept(workspace.results)
