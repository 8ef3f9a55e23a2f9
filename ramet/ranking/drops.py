"""How much of a model is lost when others are trained on its weights: functions of arrays of errors and accuracies.

Two papers measure it. *Overcoming multi-model forgetting* compares the error of an architecture right after its own
training, err_1, with that after others were trained, err_2 (section 4.2), and gives the reduction by a guard as
(d - d') / d (section 4.1). *Disturbance-immune weight sharing* compares the accuracies of architectures at two epochs
of a supernet (section 5.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ramet.errors import ConfigError
from ramet.ranking.intervals import ENOUGH_SEEDS, percentiles, t_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Estimate
from ramet.seeding import numpy_generator


class Forgetting(NamedTuple):
    """The error differences of some models, as the paper sums them up: its Figures 4a, 4b and 4c."""

    mean: float
    best_five: float
    maximum: float


def forgetting(errors_before: ArrayLike, errors_after: ArrayLike, *, num_best: int = 5) -> Forgetting:
    """How much worse models became, err_2 - err_1: the mean, that of the best models, and the maximum.

    ``errors_before`` are err_1, right after each model's own training, [models], any error, also a perplexity; the best
    are the ``num_best`` of the lowest err_1 (5 in the paper); all, if there are fewer.

    Raises:
        ConfigError: different lengths, no model, or a NaN.

    >>> forgetting([0.1, 0.2, 0.3], [0.2, 0.2, 0.6], num_best=2)
    Forgetting(mean=0.13333333333333333, best_five=0.05, maximum=0.3)
    """
    if num_best < 1:
        raise ConfigError(f"num_best must be at least 1, but got {num_best}.")
    before, after = _paired(errors_before, errors_after)
    difference = after - before
    best = np.argsort(before, kind="stable")[:num_best]
    return Forgetting(float(difference.mean()), float(difference[best].mean()), float(difference.max()))


def worst_drop(accuracies: ArrayLike) -> Floats:
    """How far accuracies, [..., measurements], fell below their first value at the worst moment; at least 0.

    >>> float(worst_drop([0.75, 0.25, 0.5]))
    0.5
    """
    curves = _curves(accuracies)
    result: Floats = curves[..., 0] - curves.min(axis=-1)
    return result


def final_drop(accuracies: ArrayLike) -> Floats:
    """How far accuracies, [..., measurements], are below their first value in the end; below 0 where others helped.

    >>> float(final_drop([0.75, 0.25, 0.5]))
    0.25
    """
    curves = _curves(accuracies)
    result: Floats = curves[..., 0] - curves[..., -1]
    return result


def relative_reduction(drops: ArrayLike, guarded: ArrayLike) -> float:
    """What share of the forgetting d a guard removed, (d - d') / d of the means over seeds.

    The ratio is taken of means, since that of a single seed that forgot nearly nothing says nothing. It is NaN if
    nothing was forgotten without the guard.

    >>> relative_reduction([8.0, 12.0], [1.0, 1.0])
    0.9
    """
    plain, kept = float(np.mean(np.asarray(drops, float))), float(np.mean(np.asarray(guarded, float)))
    return (plain - kept) / plain if plain > 0 else float("nan")


def reduction_interval(
    drops: ArrayLike,
    guarded: ArrayLike,
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 2000,
) -> Estimate:
    """``relative_reduction`` with its bootstrap interval over seeds; both sides, [seeds], are resampled together."""
    plain, kept = _paired(drops, guarded)
    rows = generator.integers(len(plain), size=(num_resamples, len(plain)))  # [resamples, seeds]
    means, kept_means = plain[rows].mean(axis=1), kept[rows].mean(axis=1)
    defined = means > 0
    found = percentiles(relative_reduction(plain, kept), 1 - kept_means[defined] / means[defined], confidence)
    return found if defined.any() else Estimate(float("nan"))


def reduction_over_seeds(drops: ArrayLike, guarded: ArrayLike, *, seed: int = 0) -> Estimate:
    """``relative_reduction`` with the interval that so many seeds allow: t for fewer than 8, a bootstrap from 8 on.

    Few seeds have Student's interval of the ratio to first order: with r = 1 - mean(d') / mean(d) the values
    r + ((1 - r) d_i - d'_i) / mean(d), one a seed, have the mean r and its deviation.
    """
    plain, kept = _paired(drops, guarded)
    if len(plain) >= ENOUGH_SEEDS:
        return reduction_interval(plain, kept, generator=numpy_generator(seed, "reduction over seeds"))
    share = relative_reduction(plain, kept)
    if np.isnan(share):
        return Estimate(share)
    return t_interval(share + ((1 - share) * plain - kept) / plain.mean())


def _paired(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    before, after = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if before.ndim != 1 or before.shape != after.shape or len(before) == 0:
        raise ConfigError(f"both lists must hold the same models, at least one, but got {before.shape}, {after.shape}.")
    return _without_nan(before), _without_nan(after)


def _curves(accuracies: ArrayLike) -> Floats:
    curves = np.asarray(accuracies, dtype=float)
    if curves.ndim == 0 or curves.shape[-1] == 0:
        raise ConfigError(f"accuracies need at least one measurement, but got shape {curves.shape}.")
    return _without_nan(curves)


def _without_nan(values: Floats) -> Floats:
    if np.isnan(values).any():
        raise ConfigError("errors and accuracies must not be NaN, but some are.")
    return values
