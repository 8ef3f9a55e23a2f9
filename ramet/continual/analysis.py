"""From the rows of several methods and seeds to one table of figures: JSON in, JSON out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ramet.continual.loop import accuracy_matrix, costs_of
from ramet.continual.measures import summary

Rows = list[dict[str, Any]]


def analyse(rows: Mapping[str, Sequence[Rows]], *, split: str = "test") -> dict[str, Any]:
    """The figures of each method, over seeds, with individual networks and joint training as references if they ran.

    Args:
        rows: For each method, by its name and options, the rows of ``Learned`` for each seed, in one order of seeds.
        split: The split that accuracies are taken from.

    Returns:
        For each method ``figures`` (each with ``mean``, ``deviation`` over seeds and ``values``), the mean ``matrix``
        (None for tasks still to come), the parameters (``growth``) and stored bytes (``stored``) after each task, and
        the ``notes`` of the first seed's tasks.
    """
    alone = [[row[split][-1] for row in seed] for seed in rows["individual"]] if "individual" in rows else None
    joint = [[row[split][-1] for row in seed] for seed in rows["joint"]] if "joint" in rows else None
    methods = {}
    for name, seeds in rows.items():
        figures = [
            _figures(seed, split, None if alone is None else alone[place], None if joint is None else joint[place])
            for place, seed in enumerate(seeds)
        ]
        matrices = [accuracy_matrix(seed, split) for seed in seeds]
        methods[name] = {
            "figures": {key: _spread([seed[key] for seed in figures]) for key in figures[0]},
            "matrix": _mean_matrix(matrices),
            "growth": [statistics.fmean(seed[task]["parameters"] for seed in seeds) for task in range(len(seeds[0]))],
            "stored": [statistics.fmean(seed[task]["stored_bytes"] for seed in seeds) for task in range(len(seeds[0]))],
            "notes": [row["notes"] for row in seeds[0]],
        }
    return methods


def _figures(
    rows: Rows, split: str, alone: Sequence[float] | None, joint: Sequence[float] | None
) -> dict[str, float | None]:
    seconds = math.fsum(row["seconds"] for row in rows)
    return summary(accuracy_matrix(rows, split), alone, joint) | costs_of(rows) | {"seconds": seconds}


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "deviation": None, "values": list(values)}
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return {"mean": statistics.fmean(known), "deviation": deviation, "values": list(values)}


def _mean_matrix(matrices: Sequence[Sequence[Sequence[float]]]) -> list[list[float | None]]:
    size = len(matrices[0])
    means = [[statistics.fmean(m[i][j] for m in matrices) for j in range(size)] for i in range(size)]
    return [[None if math.isnan(value) else value for value in row] for row in means]
