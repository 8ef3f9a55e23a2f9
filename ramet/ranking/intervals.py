"""Confidence intervals: over children by the bootstrap, over seeds by the bootstrap or, where they are few, by t.

Resampling children with replacement gives each child a weight, and Kendall's tau-b of the weighted children is a ratio
of quadratic forms in the weights. So all resamples are a few matrix products, with no loop over them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from ramet.errors import ConfigError
from ramet.ranking.metrics import Floats, check_scores
from ramet.reports import Estimate
from ramet.seeding import numpy_generator

ENOUGH_SEEDS = 8
"""From so many seeds on a bootstrap is trusted; over 3 seeds 11 % of its 95 % intervals lie above 0 by chance."""


def correlation_interval(
    scores: ArrayLike,
    truth: ArrayLike,
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 2000,
) -> Estimate:
    """GT-Tau with its bootstrap interval over children; of several rankings, the mean of their GT-Taus.

    Scores are [children] or [rankings, children]; ``confidence`` is the interval's coverage.
    """
    values = np.atleast_2d(np.asarray(scores, dtype=float))
    value = float(_weighted_correlations(values, truth, np.ones((1, values.shape[1]))).mean())
    resampled = _weighted_correlations(values, truth, _resamples(values.shape[1], num_resamples, generator))
    return percentiles(value, resampled.mean(axis=0), confidence)


def correlation_gain_interval(
    scores: ArrayLike,
    baseline: ArrayLike,
    truth: ArrayLike,
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 2000,
) -> Estimate:
    """How much higher GT-Tau is than a baseline's, with a paired interval: both see the same resampled children."""
    ours, theirs = np.atleast_2d(np.asarray(scores, float)), np.atleast_2d(np.asarray(baseline, float))
    once = np.ones((1, ours.shape[1]))
    value = _weighted_correlations(ours, truth, once).mean() - _weighted_correlations(theirs, truth, once).mean()
    weights = _resamples(ours.shape[1], num_resamples, generator)
    gain = _weighted_correlations(ours, truth, weights).mean(axis=0)
    gain = gain - _weighted_correlations(theirs, truth, weights).mean(axis=0)
    return percentiles(float(value), gain, confidence)


def agreement_interval(
    first: ArrayLike,
    second: ArrayLike,
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 1000,
) -> Estimate:
    """The mean tau-b of pairs of rankings, row by row of [pairs, children] each, with its interval over children."""
    ours, theirs = np.atleast_2d(np.asarray(first, float)), np.atleast_2d(np.asarray(second, float))
    weights = _resamples(ours.shape[1], num_resamples, generator)
    once = np.ones((1, ours.shape[1]))
    rows = [
        np.concatenate([_weighted_correlations(a[None], b, given)[0] for given in (once, weights)])
        for a, b in zip(ours, theirs, strict=True)
    ]
    mean = np.mean(rows, axis=0)  # [1 + resamples]
    return percentiles(float(mean[0]), mean[1:], confidence)


def slope_interval(
    scores: Floats,
    truth: ArrayLike,
    places: ArrayLike,
    *,
    generator: np.random.Generator,
    reach: float = 1.0,
    num_resamples: int = 1000,
) -> tuple[Estimate, Estimate]:
    """The straight line through GT-Taus over places: its slope, and its value ``reach`` beyond the last place.

    Least squares, with bootstrap intervals over children: the line is a weighted sum of correlations, so that each
    resample has one of its own.

    Args:
        scores: [instances, places, children].
        truth: [children].
        places: rising, [places].
        generator: of the resamples.
        reach: how far beyond the last place.
        num_resamples: how many.
    """
    x = np.asarray(places, float)
    num_instances, num_places, num_children = scores.shape
    weights = np.concatenate(
        [np.ones((1, num_children)), _resamples(num_children, num_resamples, generator)]
    )  # the first row is the children as they are
    taus = _weighted_correlations(scores.reshape(-1, num_children), truth, weights)
    curve = taus.reshape(num_instances, num_places, -1).mean(axis=0)  # [places, 1 + resamples]
    centred = x - x.mean()
    slopes = centred @ curve / (centred @ centred)
    then = np.minimum(curve.mean(axis=0) + slopes * (x[-1] + reach - x.mean()), 1.0)
    return tuple(percentiles(float(line[0]), line[1:], 0.95) for line in (slopes, then))  # type: ignore[return-value]


def resampled_interval(
    measure: Callable[[Floats, Floats], float],
    scores: ArrayLike,
    truth: ArrayLike,
    *,
    generator: np.random.Generator,
    num_resamples: int = 500,
) -> Estimate:
    """Any measure of a ranking against the truth, with its interval over children; of several rankings, the mean.

    Args:
        measure: called with scores and truth of the children of a resample, [children] each.
        scores: [children] or [rankings, children].
        truth: [children].
        generator: of the resamples.
        num_resamples: how many; each is a call for each ranking.
    """
    values, true = np.atleast_2d(np.asarray(scores, float)), np.asarray(truth, float)
    drawn = generator.integers(len(true), size=(num_resamples, len(true)))
    found = [np.mean([measure(row[chosen], true[chosen]) for row in values]) for chosen in drawn]
    return percentiles(float(np.mean([measure(row, true) for row in values])), np.asarray(found), 0.95)


def mean_interval(
    values: ArrayLike, *, generator: np.random.Generator, confidence: float = 0.95, num_resamples: int = 2000
) -> Estimate:
    """A mean with its bootstrap interval over the values; ``seed_interval`` is the one for seeds, of which few are."""
    sample = _sample(values)
    drawn = sample[generator.integers(len(sample), size=(num_resamples, len(sample)))]
    return percentiles(float(sample.mean()), drawn.mean(axis=1), confidence)


def t_interval(values: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """A mean with Student's interval, ``mean -+ t s / sqrt(n)``; a single value has none.

    >>> t_interval([1.0, 2.0, 3.0]).text()
    '2.00 [-0.48, 4.48]'
    """
    sample = _sample(values)
    tail = _tail(confidence)
    mean = float(sample.mean())
    if len(sample) == 1:
        return Estimate(mean)
    error = float(sample.std(ddof=1)) / len(sample) ** 0.5
    half = float(student.ppf(1 - tail, len(sample) - 1)) * error
    return Estimate(mean, mean - half, mean + half)


def seed_interval(differences: ArrayLike, *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """A mean over seeds with the interval that so many of them allow: t for fewer than 8, a bootstrap from 8 on.

    The differences, one a seed, are paired where two ways are compared. The same figures always have the same interval.
    """
    sample = _sample(differences)
    if len(sample) < ENOUGH_SEEDS:
        return t_interval(sample, confidence=confidence)
    return mean_interval(sample, generator=numpy_generator(seed, "seed interval"), confidence=confidence)


def _sample(values: ArrayLike) -> Floats:
    sample = np.asarray(values, dtype=float)
    if sample.ndim != 1 or len(sample) == 0:
        raise ConfigError(f"a mean needs a list of at least one value, but got shape {sample.shape}.")
    return sample


def _tail(confidence: float) -> float:
    """The share of one side that an interval leaves out."""
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie in (0, 1), but got {confidence}.")
    return (1 - confidence) / 2


def _resamples(num_children: int, num_resamples: int, generator: np.random.Generator) -> Floats:
    """How often each resample holds each child; shape [resamples, children]."""
    share = np.full(num_children, 1 / num_children)
    return generator.multinomial(num_children, share, size=num_resamples).astype(float)


def _weighted_correlations(scores: Floats, truth: ArrayLike, weights: Floats) -> Floats:
    """Kendall's tau-b under weights of the children; shape [rankings, resamples]. Undefined resamples are NaN."""
    true = check_scores(truth, ndim=1)
    scores = check_scores(scores, ndim=2)
    if scores.shape[1] != len(true):
        raise ConfigError(f"scores must cover the {len(true)} children of the truth, but cover {scores.shape[1]}.")

    def signs(values: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.sign(np.nan_to_num(values[..., :, None] - values[..., None, :], nan=0.0))

    def form(matrix: Floats) -> Floats:
        result: Floats = ((weights @ matrix) * weights).sum(axis=-1)
        return result

    sign_truth = signs(true)  # [children, children]
    untied_truth = form(sign_truth**2)  # [resamples]
    rows = []
    for sign in map(signs, scores):  # a ranking at a time: the memory of one matrix, [children, children]
        with np.errstate(invalid="ignore", divide="ignore"):
            rows.append(form(sign * sign_truth) / np.sqrt(form(sign**2) * untied_truth))
    return np.stack(rows)


def percentiles(value: float, resampled: Floats, confidence: float) -> Estimate:
    """A value with the interval of its resamples; those that are NaN do not count."""
    tail = _tail(confidence)
    defined = resampled[~np.isnan(resampled)]
    if len(defined) == 0:
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))
