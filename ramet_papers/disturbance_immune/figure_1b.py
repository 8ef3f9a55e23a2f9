"""Figure 1b: ten architectures trained one after the other on shared weights, with and without projection."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.disturbance import drops_by_distance
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet_papers.disturbance_immune.judges import I1Figures, judge_i1
from ramet_papers.disturbance_immune.presets import PRESETS
from ramet_papers.disturbance_immune.sequences import WAYS, Guarding, Sequences, final_accuracies
from ramet_papers.experiment import Experiment, Outcome, Row, best_of, tabled, values


def figure_1b(experiment: Experiment) -> Outcome:
    """The accuracy of each of ten architectures after the training of each later one, with and without projection."""
    preset = PRESETS[experiment.preset_name]
    sequences = Sequences(experiment, preset)
    lr = best_of(sequences.trials.finish(sequences.pilots()))
    guardings = [Guarding(), *(sequences.chosen(inputs, lr) for inputs in WAYS)]
    found = sequences.trials.finish(sequences.tasks(guardings, lr))
    tables = [_summary(experiment, found), *(_matrix(guarding, found[guarding]) for guarding in guardings)]
    standing, reestimated = (drops_by_distance(values(found[Guarding()], f)) for f in ("standing", "reestimated"))
    guarded = {g.name: float(_mean_drop(found[g], "standing").mean()) for g in guardings[1:]}
    said = {"command": experiment.command, "setting": preset.note}
    claim = judge_i1(I1Figures(standing=standing, reestimated=reestimated, guarded=guarded, **said))
    notes = [
        f"{preset.note} Means over {preset.seeds} seeds; learning rate {lr:g} and lambdas are the best for all ten "
        "at the end, on the validation data of a seed apart; accuracies are of the test split.",
    ]
    return Outcome("Disturbance-immune weight sharing, Figure 1b", tables, [claim], notes)


def _summary(experiment: Experiment, found: dict[Guarding, list[Json]]) -> Table:
    """One row a guard: what is learnt, what is lost and what is left, with and without batch norm's share."""
    plain = {field: _mean_drop(found[Guarding()], field) for field in ("standing", "reestimated")}
    rows: list[Row] = []
    for guarding, results in found.items():
        drops = {field: _mean_drop(results, field) for field in plain}
        against = {
            field: None if guarding.inputs is None else experiment.mean(drops[field] - plain[field]) for field in plain
        }
        own = np.diagonal(values(results, "reestimated"), axis1=1, axis2=2)
        upper = values(results, "disturbance")[:, *np.triu_indices(len(results[0]["open"]), k=1)]
        rows.append(
            {
                "guard": guarding.name,
                Column("own, just trained", percent): float(own.mean()),
                Column("drop, BN as it stands", percent): float(drops["standing"].mean()),
                Column("against none", percent): against["standing"],
                Column("drop, BN re-estimated", percent): float(drops["reestimated"].mean()),
                Column("against none ", percent): against["reestimated"],
                "disturbance (Eq. 3)": float(upper.mean()),
                Column("all at the end", percent): float(final_accuracies(results).mean()),
                Column("open at the last", percent): results[0]["open"][-1],
            }
        )
    return tabled(rows, "Figure 1b in short: means over all earlier and later architectures")


def _matrix(guarding: Guarding, results: list[Json]) -> Table:
    mean = values(results, "standing").mean(axis=0)
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
    means: Floats = drops_by_distance(values(results, field)).mean(axis=1)
    return means
