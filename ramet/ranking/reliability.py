"""How far a truth can be relied on: what its seeds, or their deviation, say about its own noise."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict

import numpy as np

from ramet.ranking.intervals import agreement_interval
from ramet.ranking.metrics import Floats, rank_correlations, reliability_of_mean, stability
from ramet.ranking.predictor import smoothed
from ramet.runs.encoding import Json

MOST_SPLITS = 20
"""Ways to halve the seeds, or pairs of them, that an interval is taken over; more hardly change it."""


def truth_figures(
    truth: Floats,
    deviation: Floats | None = None,
    num_seeds: int = 1,
    *,
    features: Floats | None = None,
    generator: np.random.Generator,
) -> Json:
    """What the truth is and how far its seeds agree, as JSON values.

    Args:
        truth: [seeds, children].
        deviation: of one seed, [children], where the seeds themselves are not known.
        num_seeds: how many seeds ``truth`` is then the mean of.
        features: of each child's choices, [children, columns], where a seed can be smoothed by them.
        generator: of the resamples of the intervals.
    """
    if len(truth) == 1 and deviation is not None:
        return _of_deviation(truth[0], deviation, num_seeds)
    mean = truth.mean(axis=0)
    single = stability(truth).mean if len(truth) > 1 else None
    return {
        "seeds": len(truth),
        "seeds_scores": truth.tolist(),
        "mean": mean.tolist(),
        "deviation": truth.std(axis=0, ddof=1).tolist() if len(truth) > 1 else None,
        "reliability_of_one_seed": single,
        "reliability_of_halves": _halves(truth),
        "reliability_of_mean": None if single is None else reliability_of_mean(single, len(truth)),
        "spread": float(mean.std()),
        "noise": float(truth.std(axis=0, ddof=1).mean()) if len(truth) > 1 else None,
        **_intervals(truth, generator),
        **_single(truth, features, generator),
    }


def tau_of_noise(spread: float, noise: float) -> float:
    """Kendall's tau between two measurements of children, from the spread of the truth and the noise of each.

    Both normal: the correlation is rho = s^2 / (s^2 + n^2), and tau = 2 / pi arcsin(rho).

    >>> tau_of_noise(1.0, 0.0), round(tau_of_noise(1.0, 1.0), 4)
    (1.0, 0.3333)
    """
    total = spread**2 + noise**2
    return 2 / math.pi * math.asin(spread**2 / total) if total > 0 else math.nan


def _of_deviation(mean: Floats, deviation: Floats, num_seeds: int) -> Json:
    """The same figures where only a mean and a deviation are known; reliabilities are those of normal noise."""
    noise = float(np.sqrt(np.mean(deviation**2)))
    # The means spread by their own noise, too.
    spread = math.sqrt(max(0.0, float(mean.var(ddof=1)) - noise**2 / num_seeds))
    half = num_seeds // 2
    return {
        "seeds": num_seeds,
        "seeds_scores": [mean.tolist()],
        "mean": mean.tolist(),
        "deviation": deviation.tolist(),
        "reliability_of_one_seed": tau_of_noise(spread, noise),
        "reliability_of_halves": tau_of_noise(spread, noise / math.sqrt(half)) if half else None,
        "reliability_of_mean": tau_of_noise(spread, noise / math.sqrt(num_seeds)),
        "spread": float(mean.std()),
        "noise": float(deviation.mean()),
    }


def _splits(num_seeds: int) -> list[tuple[list[int], list[int]]]:
    """Ways to halve the seeds."""
    seeds = range(num_seeds)
    halves = itertools.islice(itertools.combinations(seeds, num_seeds // 2), 1000)
    return [(list(half), [seed for seed in seeds if seed not in half]) for half in halves]


def _halves(truth: Floats) -> float | None:
    """How two halves of the truth's seeds correlate: the mean over all ways to halve them."""
    if len(truth) < 2:
        return None
    taus = [
        rank_correlations(truth[half].mean(axis=0)[None], truth[other].mean(axis=0)[None])[0, 0]
        for half, other in _splits(len(truth))
    ]
    return float(np.mean(taus))


def _intervals(truth: Floats, generator: np.random.Generator) -> Json:
    if len(truth) < 2:
        return {}
    splits = _splits(len(truth))[:MOST_SPLITS]
    first, second = (np.stack([truth[split[side]].mean(axis=0) for split in splits]) for side in (0, 1))
    pairs = list(itertools.combinations(range(len(truth)), 2))[:MOST_SPLITS]
    halves = agreement_interval(first, second, generator=generator)
    seeds = agreement_interval(
        truth[[one for one, _ in pairs]], truth[[other for _, other in pairs]], generator=generator
    )
    return {"halves": asdict(halves), "one_seed": asdict(seeds)}


def _single(truth: Floats, features: Floats | None, generator: np.random.Generator) -> Json:
    """How one seed, as it is and smoothed, agrees with the mean of the others, of which it is no part."""
    if len(truth) < 2 or features is None:
        return {}
    others = (truth.sum(axis=0) - truth) / (len(truth) - 1)
    as_it_is = agreement_interval(truth, others, generator=generator)
    fitted = agreement_interval(smoothed(features, truth), others, generator=generator)
    return {"seed_with_others": asdict(as_it_is), "smoothed_with_others": asdict(fitted)}
