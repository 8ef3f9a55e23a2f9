r"""How much of a model is lost when others are trained on its weights: functions of arrays of errors and accuracies.

Two papers measure it. *Overcoming multi-model forgetting* compares the error of an architecture right after its own
training, :math:`err_1`, with that after others were trained, :math:`err_2` (section 4.2), and gives the reduction by a
guard as :math:`(d - d') / d` (section 4.1). *Disturbance-immune weight sharing* compares the accuracies of
architectures at two epochs of a supernet (section 5.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ramet.errors import ConfigError
from ramet.ranking.metrics import Floats
from ramet.reports import Estimate


class Forgetting(NamedTuple):
    """The error differences of some models, as the paper sums them up: its Figures 4a, 4b and 4c."""

    mean: float
    best_five: float
    maximum: float


def forgetting(errors_before: ArrayLike, errors_after: ArrayLike, *, num_best: int = 5) -> Forgetting:
    r"""How much worse models became, :math:`err_2 - err_1`: the mean, that of the best models, and the maximum.

    Args:
        errors_before: :math:`err_1`, right after each model's own training; any error, also a perplexity; [models].
        errors_after: :math:`err_2`, after the others were trained; [models].
        num_best: how many of the models with the lowest :math:`err_1` count as the best (5 in the paper); all, if
            there are fewer.

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
    """How far accuracies fell below their first value at the worst moment; at least 0.

    Args:
        accuracies: the first before others were trained, the rest while they were; [..., measurements].

    >>> float(worst_drop([0.75, 0.25, 0.5]))
    0.5
    """
    curves = _curves(accuracies)
    result: Floats = curves[..., 0] - curves.min(axis=-1)
    return result


def final_drop(accuracies: ArrayLike) -> Floats:
    """How far accuracies are below their first value in the end; below 0 where training others helped.

    Args:
        accuracies: as for ``worst_drop``; [..., measurements].

    >>> float(final_drop([0.75, 0.25, 0.5]))
    0.25
    """
    curves = _curves(accuracies)
    result: Floats = curves[..., 0] - curves[..., -1]
    return result


def relative_reduction(drops: ArrayLike, guarded: ArrayLike) -> float:
    r"""What share of the forgetting a guard removed, :math:`(d - d') / d` of the means over seeds.

    The ratio is taken of means, since that of a single seed that forgot nearly nothing says nothing. It is NaN if
    nothing was forgotten without the guard.

    Args:
        drops: d, without a guard; any shape.
        guarded: d', with it.

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
    """``relative_reduction`` with its bootstrap interval over seeds; both sides are resampled together.

    Args:
        drops: without a guard, one a seed; [seeds].
        guarded: with it, on the same seeds; [seeds].
        generator: where the resamples come from.
        confidence: the interval's coverage.
        num_resamples: how many resamples.
    """
    plain, kept = _paired(drops, guarded)
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie in (0, 1), but got {confidence}.")
    rows = generator.integers(len(plain), size=(num_resamples, len(plain)))  # [resamples, seeds]
    means, kept_means = plain[rows].mean(axis=1), kept[rows].mean(axis=1)
    defined = means > 0
    if not defined.any():
        return Estimate(float("nan"))
    tail = (1 - confidence) / 2
    low, high = np.quantile(1 - kept_means[defined] / means[defined], [tail, 1 - tail])
    return Estimate(relative_reduction(plain, kept), float(low), float(high))


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
