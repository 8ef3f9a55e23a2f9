"""Section 5.4: the number of shared layers, lambda, and the claim that the two answer together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.disturbance import drops_by_distance
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import rank_correlation
from ramet.reports import Column, Table
from ramet.reports.formats import percent, significant
from ramet.seeding import numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.disturbance_immune.pairs import Pairs
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset
from ramet_papers.disturbance_immune.sequences import WAYS, Guarding, Sequences, final_accuracies, matrices
from ramet_papers.workspace import Outcome, Workspace

GOOD_ENOUGH = 0.01
"""Lambda 1 is a good default if it is at most so much below the best lambda in mean accuracy."""


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
    """Claim I4, from whatever is recorded of its two halves; it holds only when both are there and do."""
    trend, words = _shared_layers_half(workspace, preset)
    default, more = _lambda_half(workspace, preset)
    return Claim(
        id="I4",
        claim="More shared layers, more disturbance; lambda = 1 is a good default.",
        paper="section 5.4, in words only",
        ours=f"{words}; {more}",
        spread=f"trend {_word(trend)}, lambda = 1 within {100 * GOOD_ENOUGH:.0f} point of the best: {_word(default)}",
        seeds=preset.seeds,
        holds=None if trend is None or default is None else trend and default,
        command=f"ramet reproduce disturbance-immune/shared-layers --preset {preset.name}; "
        f"ramet reproduce disturbance-immune/lambda --preset {preset.name}",
        note=f"{preset.note} Pairs share the stem and up to {preset.pair_space_options['num_cells']} first cells.",
    )


def _shared_layers_half(workspace: Workspace, preset: DisturbancePreset) -> tuple[bool | None, str]:
    results = Pairs(workspace, preset).known()
    if results is None:
        return None, "shared layers not measured"
    disturbance = np.array([[result["disturbance"] for result in row] for row in results])  # [shared, pairs]
    layers = np.array([np.mean([result["layers"] for result in row]) for row in results])
    per_pair = [rank_correlation(layers, curve) for curve in disturbance.T]
    interval = mean_interval(per_pair, generator=numpy_generator(workspace.seed, "claim-4"))
    first, last = (f"{disturbance[end].mean():.2f} with {layers[end]:.0f}" for end in (0, -1))
    text = f"disturbance {first} shared layers, {last}; rank correlation with their number {interval.text()}"
    return interval.is_above_zero, text


def _lambda_half(workspace: Workspace, preset: DisturbancePreset) -> tuple[bool | None, str]:
    curve = Sequences(workspace, preset).known_curve()
    if curve is None:
        return None, "lambda not measured"
    plain, texts, within = curve[Guarding()].mean(), [], []
    for inputs, way in WAYS.items():
        means = {value: curve[Guarding(inputs, value)].mean() for value in preset.lambdas[inputs]}
        best = max(means, key=lambda value: means[value])
        within.append(means[1.0] >= means[best] - GOOD_ENOUGH)
        texts.append(f"{way}: {means[1.0]:.1%} at lambda 1, {means[best]:.1%} at the best, {best:g}")
    return all(within), f"{'; '.join(texts)}; unguarded {plain:.1%}"


def _word(answer: bool | None) -> str:
    return "not measured" if answer is None else "yes" if answer else "no"
