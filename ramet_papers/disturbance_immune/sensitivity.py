"""Section 5.4: the number of shared layers, lambda, and the claim that the two answer together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.disturbance import drops_by_distance
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import percent, significant
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.disturbance_immune.judges import I4Figures, Lambdas, SharedLayers, judge_i4
from ramet_papers.disturbance_immune.pairs import Pairs
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset
from ramet_papers.disturbance_immune.sequences import WAYS, Guarding, Sequences, final_accuracies, matrices
from ramet_papers.workspace import Outcome, Workspace


def shared_layers(workspace: Workspace, preset_name: str) -> Outcome:
    """Two architectures in a row: the disturbance of the first against the number of layers that the second shares."""
    preset = PRESETS[preset_name]
    results, lr = Pairs(workspace, preset).finish()
    generator = numpy_generator(workspace.seed, "shared-layers")
    rows: list[list[Any]] = []
    for num_shared, row in enumerate(results):
        drops = np.array([result["before"] - result["after"] for result in row])
        standing = np.array([result["before"] - result["standing"] for result in row])
        rows.append(
            [
                num_shared,
                float(np.mean([result["layers"] for result in row])),
                mean_interval([result["disturbance"] for result in row], generator=generator),
                mean_interval(drops, generator=generator),
                float(standing.mean()),
                float(np.mean([result["before"] for result in row])),
                float(np.mean([result["second"] for result in row])),
            ]
        )
    columns: list[Column | str] = ["shared cells", Column("shared layers", lambda value: f"{value:.1f}")]
    columns += [
        "disturbance (Eq. 3)",
        Column("drop, BN re-estimated", percent),
        Column("drop, BN as it stands", percent),
    ]
    columns += [Column("first, just trained", percent), Column("second", percent)]
    table = Table(columns, rows, title="What a second architecture does to a first, by what they share")
    notes = [
        f"{preset.seeds} seeds, {preset.num_pairs} pair(s) each; learning rate {lr:g} by validation, a seed apart."
    ]
    return Outcome(
        "Disturbance-immune weight sharing, number of shared layers", [table], [claim_4(workspace, preset)], notes
    ).kept(workspace.results)


def lambda_curve(workspace: Workspace, preset_name: str) -> Outcome:
    """Lambda's sensitivity (section 5.4): what is kept and what is still learnt, from closing little to closing all."""
    preset = PRESETS[preset_name]
    sequences = Sequences(workspace, preset)
    lr = sequences.learning_rate()
    tasks = sequences.lambda_tasks(lr)
    results = sequences.trainings.finish([task for row in tasks.values() for task in row])
    generator = numpy_generator(workspace.seed, "lambda")
    found = {g: [results[task.key] for task in row] for g, row in tasks.items()}
    plain = final_accuracies(found[Guarding()])
    rows: list[list[Any]] = []
    for guarding, results_of in found.items():
        final = final_accuracies(results_of)
        gain = None if guarding.inputs is None else mean_interval(final - plain, generator=generator)
        rows.append(
            [
                "none" if guarding.inputs is None else WAYS[guarding.inputs],
                None if guarding.inputs is None else guarding.regularisation,
                float(final.mean()),
                gain,
                float(drops_by_distance(matrices(results_of, "reestimated")).mean()),
                float(np.diagonal(matrices(results_of, "reestimated"), axis1=1, axis2=2).mean()),
                float(np.mean([result["open"][-1] for result in results_of])),
            ]
        )
    columns: list[Column | str] = [
        "guard",
        Column("lambda", significant),
        Column("all ten at the end", percent, best="highest"),
        Column("gain over none", percent),
        Column("drop", percent, best="lowest"),
        Column("own, just trained", percent, best="highest"),
        Column("open directions at the last", percent),
    ]
    table = Table(columns, rows, title="Lambda: accuracy of ten architectures in a row, batch norm re-estimated")
    notes = [f"{preset.note} Means over {preset.seeds} seeds; learning rate {lr:g}."]
    return Outcome("Disturbance-immune weight sharing, lambda", [table], [claim_4(workspace, preset)], notes).kept(
        workspace.results
    )


def claim_4(workspace: Workspace, preset: DisturbancePreset) -> Claim:
    """Claim I4, from whatever is recorded of its two halves."""
    pairs, curve = Pairs(workspace, preset).known(), Sequences(workspace, preset).known_curve()
    commands = (
        f"ramet reproduce disturbance-immune/{name} --preset {preset.name}" for name in ("shared-layers", "lambda")
    )
    return judge_i4(
        I4Figures(
            command="; ".join(commands),
            setting=f"{preset.note} Pairs share the stem and up to {preset.pair_space_options['num_cells']} first "
            "cells.",
            shared=None if pairs is None else _shared_layers(pairs),
            lambdas=None if curve is None else _lambdas(curve, preset),
            seeds=preset.seeds,
        )
    )


def _lambdas(curve: dict[Guarding, Floats], preset: DisturbancePreset) -> Lambdas:
    ways = {
        way: {value: curve[Guarding(inputs, value)] for value in preset.lambdas[inputs]} for inputs, way in WAYS.items()
    }
    return Lambdas(ways, curve[Guarding()])


def _shared_layers(results: list[list[Json]]) -> SharedLayers:
    return SharedLayers(
        np.array([np.mean([result["layers"] for result in row]) for row in results]),
        np.array([[result["disturbance"] for result in row] for row in results]),
    )
