"""What another way to train gives: its correlation beside the plan's own, and what a way says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from ramet.ranking.analysis import Scores
from ramet.ranking.intervals import correlation_gain_interval, correlation_interval
from ramet.ranking.metrics import Floats, rank_correlations
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator


def variation_figures(text: str, scores: Scores, base: Scores, truth: Floats | None, *, seed: int) -> Json:
    """The averaged scores of a variation against the truth, [children], and what they gain over the plan's own."""
    row: Json = {"variation": text, "accuracy": float(scores.steps.mean())}
    if truth is not None:
        generator = numpy_generator(seed, "bootstrap", text)
        ours, theirs = scores.steps.mean(axis=1), base.steps.mean(axis=1)
        taus = np.stack([rank_correlations(steps, truth[None])[:, 0] for steps in scores.steps])
        row |= {
            "mean_over_steps": float(taus.mean()),
            "deviation_over_steps": float(taus.std(axis=1).mean()),
            "per_instance": taus.mean(axis=1).tolist(),
            "tau": asdict(correlation_interval(ours, truth, generator=generator)),
            "gain": asdict(correlation_gain_interval(ours, theirs, truth, generator=generator)),
        }
    return row


def training_figures(
    reports: Sequence[Json], told: Sequence[int], averaged: Floats, truth: Floats | None, *, seed: int
) -> Json | None:
    """What a way to train says of itself, and the correlation among the children of whose order it was not told.

    Args:
        reports: of each supernet.
        told: places of the children of whose order it was told.
        averaged: scores, [instances, children].
        truth: [children], or none.
        seed: of the resamples.

    Returns:
        None if there is nothing to say; else ``reports``, ``told`` (how many) and ``untold_tau``, which is none where
        it was told of none, or of all but two.
    """
    if not any(reports):
        return None
    others = np.setdiff1d(np.arange(averaged.shape[1]), told)
    untold = None
    if truth is not None and told and len(others) > 2:
        generator = numpy_generator(seed, "bootstrap untold")
        untold = asdict(correlation_interval(averaged[:, others], truth[others], generator=generator))
    return {"reports": list(reports), "told": len(told), "untold_tau": untold}
