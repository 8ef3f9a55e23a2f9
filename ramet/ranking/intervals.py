"""Confidence intervals: over children by the bootstrap, over seeds by the bootstrap or, where they are few, by t.

Resampling children with replacement gives each child a weight, and Kendall's tau-b of the weighted children is a ratio
of sums over pairs (``concordance``), which are taken for a block of resamples at once. What is drawn does not depend on
the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from ramet.errors import ConfigError
from ramet.ranking.concordance import rows_at_once, untied_weight, weighted_concordance
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
    now, drawn = _once_and_resampled(
        lambda weights: _weighted_correlations(values, truth, weights), values.shape[1], num_resamples, generator
    )
    return percentiles(float(now.mean()), drawn.mean(axis=0), confidence)


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
    now, drawn = _once_and_resampled(
        lambda weights: np.concatenate([_weighted_correlations(each, truth, weights) for each in (ours, theirs)]),
        ours.shape[1],
        num_resamples,
        generator,
    )  # [rankings of both, .]
    count = len(ours)
    gain = drawn[:count].mean(axis=0) - drawn[count:].mean(axis=0)
    return percentiles(float(now[:count].mean() - now[count:].mean()), gain, confidence)


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

    def agreements(weights: Floats) -> Floats:
        rows = [_weighted_correlations(a[None], b, weights)[0] for a, b in zip(ours, theirs, strict=True)]
        return np.stack(rows)  # [pairs, resamples]

    now, drawn = _once_and_resampled(agreements, ours.shape[1], num_resamples, generator)
    mean = np.mean(np.concatenate([now, drawn], axis=1), axis=0)  # [1 + resamples]
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
    rankings = scores.reshape(-1, num_children)
    taus = np.concatenate(
        _once_and_resampled(
            lambda weights: _weighted_correlations(rankings, truth, weights), num_children, num_resamples, generator
        ),
        axis=1,
    )
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
    found = [
        np.mean([measure(row[chosen], true[chosen]) for row in values])
        for drawn in _places(len(true), num_resamples, generator)
        for chosen in drawn
    ]
    return percentiles(float(np.mean([measure(row, true) for row in values])), np.asarray(found), 0.95)


def mean_interval(
    values: ArrayLike, *, generator: np.random.Generator, confidence: float = 0.95, num_resamples: int = 2000
) -> Estimate:
    """A mean with its bootstrap interval over the values; ``seed_interval`` is the one for seeds, of which few are."""
    sample = _sample(values)
    means = [sample[drawn].mean(axis=1) for drawn in _places(len(sample), num_resamples, generator)]
    return percentiles(float(sample.mean()), np.concatenate(means), confidence)


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


def _once_and_resampled(
    measure: Callable[[Floats], Floats], num_children: int, num_resamples: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """What a function of weights gives for the children as they are, [..., 1], and for resamples, [..., resamples].

    The function takes [some, children] to [..., some].
    """
    now = measure(np.ones((1, num_children)))
    drawn = [measure(weights) for weights in resamples(num_children, num_resamples, generator)]
    return now, np.concatenate(drawn, axis=-1)


def resamples(num_children: int, num_resamples: int, generator: np.random.Generator) -> Iterator[Floats]:
    """How often each resample holds each child, [some, children], in blocks until there are so many."""
    share = np.full(num_children, 1 / num_children)
    for count in _counts(num_children, num_resamples):
        yield generator.multinomial(num_children, share, size=count).astype(float)


def _places(num_values: int, num_resamples: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Which values each resample holds, [some, values], in blocks until there are so many."""
    for count in _counts(num_values, num_resamples):
        yield generator.integers(num_values, size=(count, num_values))


def _counts(num_values: int, num_resamples: int) -> list[int]:
    """How many resamples each block has."""
    most = rows_at_once(num_values)
    return [min(most, num_resamples - start) for start in range(0, max(num_resamples, 1), most)]


def _weighted_correlations(scores: Floats, truth: ArrayLike, weights: Floats) -> Floats:
    """Kendall's tau-b under weights of the children; shape [rankings, resamples]. Undefined resamples are NaN."""
    true = check_scores(truth, ndim=1)
    scores = check_scores(scores, ndim=2)
    if scores.shape[1] != len(true):
        raise ConfigError(f"scores must cover the {len(true)} children of the truth, but cover {scores.shape[1]}.")
    untied_truth = untied_weight(true, weights)  # [resamples]
    rows = []
    for ranking in scores:
        untied = untied_weight(ranking, weights) * untied_truth
        with np.errstate(invalid="ignore"):
            rows.append(weighted_concordance(ranking, true, weights) / np.sqrt(untied))
    return np.stack(rows)


def percentiles(value: float, resampled: Floats, confidence: float) -> Estimate:
    """A value with the interval of its resamples; those that are NaN do not count."""
    tail = _tail(confidence)
    defined = resampled[~np.isnan(resampled)]
    if len(defined) == 0:
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))
