"""Figure 1b: ten architectures trained to the end one after the other on shared weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.disturbance import drops_by_distance, growth_within_rows
from ramet.reports import Column, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet_papers.disturbance_immune.judges import I1Figures, judge_i1
from ramet_papers.disturbance_immune.presets import PRESETS
from ramet_papers.disturbance_immune.sequences import Rows
from ramet_papers.experiment import Experiment, Outcome, Row, tabled, values


def figure_1b(experiment: Experiment) -> Outcome:
    """The accuracy and the disturbance of each of ten architectures after the training of each later one; claim I1.

    What projection makes of such rows, at the best lambda, is the subject of ``sensitivity``.
    """
    preset = PRESETS[experiment.preset_name]
    found = Rows(experiment, preset).over_seeds()
    reestimated, standing = (values(found, field) for field in ("reestimated", "standing"))
    disturbance, own = values(found, "disturbance"), np.diagonal(reestimated, axis1=1, axis2=2)
    figures = I1Figures(
        command=experiment.command,
        setting=preset.row_note,
        disturbance=disturbance,
        drops=drops_by_distance(reestimated),
        standing=drops_by_distance(standing),
        own=own,
        known=values(found, "known"),
    )
    rows: list[Row] = [
        {
            Column("own, just trained", percent): float(own.mean()),
            Column("training images known", percent): float(figures.known.mean()),
            Column("drop, BN re-estimated", percent): experiment.mean(figures.drops.mean(axis=1)),
            Column("drop, BN as it stands", percent): experiment.mean(figures.standing.mean(axis=1)),
            "disturbance within rows": experiment.mean(growth_within_rows(disturbance)),
        }
    ]
    tables = [
        tabled(rows, "Figure 1b in short: means over all earlier and later architectures"),
        _matrix(found, "reestimated", "accuracy in percent, batch norm re-estimated", 100),
        _matrix(found, "disturbance", "disturbance (Eq. 3), times 100", 100),
    ]
    notes = [f"{preset.row_note} Means over {len(found)} seeds; accuracies are of the test split."]
    return Outcome("Disturbance-immune weight sharing, Figure 1b", tables, [judge_i1(figures)], notes)


def _matrix(results: list[Json], field: str, words: str, scale: float) -> Table:
    mean = values(results, field).mean(axis=0)
    size = len(mean)
    rows: list[list[Any]] = [
        [f"{i + 1}", *[float(mean[i, j]) if j >= i else None for j in range(size)]] for i in range(size)
    ]
    columns: list[Column | str] = [
        "architecture",
        *[Column(f"after {j + 1}", lambda v: f"{scale * v:.0f}") for j in range(size)],
    ]
    return Table(columns, rows, title=f"Figure 1b: {words}")
