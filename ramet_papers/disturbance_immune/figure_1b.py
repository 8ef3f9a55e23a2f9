"""Figure 1b: ten architectures trained one after the other on shared weights, with and without projection."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.disturbance import drops_by_distance
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.disturbance_immune.judges import I1Figures, judge_i1
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset
from ramet_papers.disturbance_immune.sequences import WAYS, Guarding, Sequences, final_accuracies, matrices
from ramet_papers.workspace import Outcome, Workspace


def figure_1b(workspace: Workspace, preset_name: str) -> Outcome:
    """The accuracy of each of ten architectures after the training of each later one, with and without projection."""
    preset = PRESETS[preset_name]
    sequences = Sequences(workspace, preset)
    lr = sequences.learning_rate()
    guardings = [Guarding(), *(sequences.chosen(inputs, lr) for inputs in WAYS)]
    found = sequences.over_seeds(guardings, lr)
    generator = numpy_generator(workspace.seed, "figure-1b")
    tables = [_summary(found, generator)]
    tables += [_matrix(guarding, found[guarding]) for guarding in guardings]
    return Outcome(
        "Disturbance-immune weight sharing, Figure 1b",
        tables,
        [judge_i1(_figures_1(found, preset))],
        [
            f"{preset.note} Means over {preset.seeds} seeds; learning rate {lr:g} and lambdas are the best for all ten "
            "at the end, on the validation data of a seed apart; accuracies are of the test split.",
        ],
    ).kept(workspace.results)


def _summary(found: dict[Guarding, list[Json]], generator: np.random.Generator) -> Table:
    """One row a guard: what is learnt, what is lost and what is left, with and without batch norm's share."""
    plain = {field: _mean_drop(found[Guarding()], field) for field in ("standing", "reestimated")}
    rows: list[list[Any]] = []
    for guarding, results in found.items():
        own = np.diagonal(matrices(results, "reestimated"), axis1=1, axis2=2).mean()
        row: list[Any] = [guarding.name, float(own)]
        for field in ("standing", "reestimated"):
            drop = _mean_drop(results, field)
            row.append(float(drop.mean()))
            row.append(None if guarding.inputs is None else mean_interval(drop - plain[field], generator=generator))
        upper = matrices(results, "disturbance")[:, *np.triu_indices(len(results[0]["open"]), k=1)]
        rows.append([*row, float(upper.mean()), float(final_accuracies(results).mean()), results[0]["open"][-1]])
    columns: list[Column | str] = ["guard", Column("own, just trained", percent)]
    columns += [Column("drop, BN as it stands", percent), Column("against none", percent)]
    columns += [Column("drop, BN re-estimated", percent), Column("against none ", percent)]
    columns += [Column("disturbance (Eq. 3)"), Column("all at the end", percent), Column("open at the last", percent)]
    return Table(columns, rows, title="Figure 1b in short: means over all earlier and later architectures")


def _matrix(guarding: Guarding, results: list[Json]) -> Table:
    mean = matrices(results, "standing").mean(axis=0)
    size = len(mean)
    rows: list[list[Any]] = [
        [f"{i + 1}", *[float(mean[i, j]) if j >= i else None for j in range(size)]] for i in range(size)
    ]
    columns: list[Column | str] = [
        "architecture",
        *[Column(f"after {j + 1}", lambda v: f"{100 * v:.0f}") for j in range(size)],
    ]
    return Table(columns, rows, title=f"Figure 1b, {guarding.name}: accuracy in percent, batch norm as it stands")


def _mean_drop(results: list[Json], field: str) -> Floats:
    """The mean over distances of the mean drop, so that near and far count alike; shape [seeds]."""
    means: Floats = drops_by_distance(matrices(results, field)).mean(axis=1)
    return means


def _figures_1(found: dict[Guarding, list[Json]], preset: DisturbancePreset) -> I1Figures:
    plain = found[Guarding()]
    return I1Figures(
        command=f"ramet reproduce disturbance-immune/figure-1b --preset {preset.name}",
        setting=preset.note,
        standing=drops_by_distance(matrices(plain, "standing")),
        reestimated=drops_by_distance(matrices(plain, "reestimated")),
        guarded={
            guarding.name: float(_mean_drop(results, "standing").mean())
            for guarding, results in found.items()
            if guarding.inputs is not None
        },
    )
