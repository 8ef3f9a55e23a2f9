"""Section 5.4: the number of shared layers, lambda, and the claim that the two answer together."""

from __future__ import annotations

import numpy as np

from ramet.ranking.disturbance import drops_by_distance
from ramet.reports import Column
from ramet.reports.formats import decimals, percent, significant
from ramet_papers.claims import Claim
from ramet_papers.disturbance_immune.judges import I4Figures, Lambdas, SharedLayers, judge_i4
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset
from ramet_papers.disturbance_immune.sequences import WAYS, Guarding, Pairs, Sequences, final_accuracies
from ramet_papers.experiment import Experiment, Outcome, Row, mean_of, tabled, values


def shared_layers(experiment: Experiment) -> Outcome:
    """Two architectures in a row: the disturbance of the first against the number of layers that the second shares."""
    preset = PRESETS[experiment.preset_name]
    found = Pairs(experiment, preset).over_cells()
    assert found is not None
    results, lr = found
    rows: list[Row] = []
    for num_shared, row in enumerate(results):
        before = values(row, "before")
        rows.append(
            {
                "shared cells": num_shared,
                Column("shared layers", decimals(1)): mean_of(row, "layers"),
                "disturbance (Eq. 3)": experiment.mean(values(row, "disturbance")),
                Column("drop, BN re-estimated", percent): experiment.mean(before - values(row, "after")),
                Column("drop, BN as it stands", percent): float((before - values(row, "standing")).mean()),
                Column("first, just trained", percent): float(before.mean()),
                Column("second", percent): mean_of(row, "second"),
            }
        )
    table = tabled(rows, "What a second architecture does to a first, by what they share")
    notes = [
        f"{preset.seeds} seeds, {preset.num_pairs} pair(s) each; learning rate {lr:g} by validation, a seed apart."
    ]
    title = "Disturbance-immune weight sharing, number of shared layers"
    return Outcome(title, [table], [claim_4(experiment, preset)], notes)


def lambda_curve(experiment: Experiment) -> Outcome:
    """Lambda's sensitivity (section 5.4): what is kept and what is still learnt, from closing little to closing all."""
    preset = PRESETS[experiment.preset_name]
    curve = Sequences(experiment, preset).over_lambdas()
    assert curve is not None
    found, lr = curve
    plain = final_accuracies(found[Guarding()])
    rows: list[Row] = []
    for guarding, results in found.items():
        final, matrices, inputs = final_accuracies(results), values(results, "reestimated"), guarding.inputs
        rows.append(
            {
                "guard": "none" if inputs is None else WAYS[inputs],
                Column("lambda", significant): None if inputs is None else guarding.regularisation,
                Column("all ten at the end", percent, best="highest"): float(final.mean()),
                Column("gain over none", percent): None if inputs is None else experiment.mean(final - plain),
                Column("drop", percent, best="lowest"): float(drops_by_distance(matrices).mean()),
                Column("own, just trained", percent, best="highest"): float(
                    np.diagonal(matrices, axis1=1, axis2=2).mean()
                ),
                Column("open directions at the last", percent): float(values(results, "open")[:, -1].mean()),
            }
        )
    table = tabled(rows, "Lambda: accuracy of ten architectures in a row, batch norm re-estimated")
    notes = [f"{preset.note} Means over {preset.seeds} seeds; learning rate {lr:g}."]
    return Outcome("Disturbance-immune weight sharing, lambda", [table], [claim_4(experiment, preset)], notes)


def claim_4(experiment: Experiment, preset: DisturbancePreset) -> Claim:
    """Claim I4, from whatever is recorded of its two halves."""
    paper = experiment.target.partition("/")[0]
    commands = (
        f"ramet reproduce {paper}/{name} --preset {experiment.preset_name}" for name in ("shared-layers", "lambda")
    )
    return judge_i4(
        I4Figures(
            command="; ".join(commands),
            setting=f"{preset.note} Pairs share the stem and up to {preset.pair_space_options['num_cells']} first "
            "cells.",
            shared=_shared_layers(experiment, preset),
            lambdas=_lambdas(experiment, preset),
            seeds=preset.seeds,
        )
    )


def _lambdas(experiment: Experiment, preset: DisturbancePreset) -> Lambdas | None:
    known = Sequences(experiment, preset).over_lambdas(only_known=True)
    if known is None:
        return None
    curve = {guarding: final_accuracies(results) for guarding, results in known[0].items()}
    ways = {
        way: {value: curve[Guarding(inputs, value)] for value in preset.lambdas[inputs]} for inputs, way in WAYS.items()
    }
    return Lambdas(ways, curve[Guarding()])


def _shared_layers(experiment: Experiment, preset: DisturbancePreset) -> SharedLayers | None:
    known = Pairs(experiment, preset).over_cells(only_known=True)
    if known is None:
        return None
    layers, disturbance = (np.array([values(row, name) for row in known[0]]) for name in ("layers", "disturbance"))
    return SharedLayers(layers.mean(axis=1), disturbance)
