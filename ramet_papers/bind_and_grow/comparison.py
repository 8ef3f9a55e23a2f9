"""The comparison with other methods on permuted and on split images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.intervals import mean_interval
from ramet.reports import Column, Table
from ramet.seeding import numpy_generator
from ramet_papers.bind_and_grow.presets import PRESETS
from ramet_papers.bind_and_grow.trials import BindingSetup, compared, open_run, run_tasks
from ramet_papers.workspace import Outcome, Workspace


def comparison(workspace: Workspace, preset_name: str) -> Outcome:
    """Average accuracy, backward transfer, parameters and time of each method, under the same training."""
    preset = PRESETS[preset_name]
    generator = numpy_generator(workspace.seed, "comparison")
    tables = []
    with open_run(workspace, preset, "comparison") as run:
        for label, stream_setting in (("permuted", preset.permuted), ("split", preset.split)):
            setup = BindingSetup.of(workspace, preset, stream_setting, run.path / "networks" / label)
            tasks = [
                WorkItem(f"{label}/{method}/{number}", compared, {"number": number, "method": method})
                for method in preset.methods
                for number in range(preset.seeds)
            ]
            results = run_tasks(workspace, run, tasks, setup, f"comparing methods on {stream_setting.source}")
            rows: list[list[Any]] = []
            for place, method in enumerate(preset.methods):
                own = results[place * preset.seeds : (place + 1) * preset.seeds]
                accuracies = [100 * result["average_accuracy"] for result in own]
                rows.append(
                    [
                        method,
                        mean_interval(accuracies, generator=generator),
                        100 * float(np.mean([result["backward_transfer"] for result in own])),
                        int(np.mean([result["parameters"] for result in own])),
                        int(np.mean([result["stored_bytes"] for result in own])),
                        float(np.mean([result["seconds"] for result in own])),
                    ]
                )
            columns: list[Column | str] = [
                "method",
                Column("average accuracy, %", best="highest"),
                "backward transfer, points",
                "parameters",
                "stored bytes",
                "seconds",
            ]
            tables.append(Table(columns, rows, title=f"{stream_setting.source}, {preset.seeds} seeds (test images)"))
    return Outcome("Learn to bind and grow, comparison", tables, notes=[preset.setting(preset.split)])
