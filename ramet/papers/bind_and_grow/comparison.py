"""The comparison with other methods on permuted and on split images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.execution import Task
from ramet.papers.bind_and_grow.presets import PRESETS
from ramet.papers.bind_and_grow.trials import Bench, compared, open_run, run_tasks
from ramet.papers.desk import Desk, Outcome
from ramet.ranking.intervals import mean_interval
from ramet.reports import Column, Table
from ramet.seeding import numpy_generator


def comparison(desk: Desk, preset_name: str) -> Outcome:
    """Average accuracy, backward transfer, parameters and time of each method, under the same training."""
    preset = PRESETS[preset_name]
    generator = numpy_generator(desk.seed, "comparison")
    tables = []
    with open_run(desk, preset, "comparison") as run:
        for label, bed in (("permuted", preset.permuted), ("split", preset.split)):
            bench = Bench.of(desk, preset, bed, run.path / "networks" / label)
            tasks = [
                Task(f"{label}/{method}/{number}", compared, {"number": number, "method": method})
                for method in preset.methods
                for number in range(preset.seeds)
            ]
            results = run_tasks(desk, run, tasks, bench, f"comparing methods on {bed.source}")
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
            tables.append(Table(columns, rows, title=f"{bed.source}, {preset.seeds} seeds (test images)"))
    return Outcome("Learn to bind and grow, comparison", tables, notes=[preset.setting(preset.split)])
