"""How rankings agree with each other and with the truth: functions of arrays of scores, nothing else.

A score is better the higher it is. All correlations are Kendall's tau-b, which is exact with ties: with the signs
s_ij(a) of a_i - a_j it is the sum over pairs of s_ij(a) s_ij(b), divided by the root of the product of the sums of
their squares; ``concordance`` has both sums, in memory that does not grow with the pairs. A ranking in which all
children are equal has no order, and every correlation with it is NaN, as in SciPy.

Reference: *Deeper insights into weight sharing in neural architecture search*, section 3.2.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from ramet.errors import ConfigError
from ramet.ranking.concordance import concordances, untied_pairs

Floats = NDArray[np.float64]


class Stability(NamedTuple):
    """Rank correlations over all pairs of rankings: the paper's S-Tau, Max Tau and Min Tau."""

    mean: float
    highest: float
    lowest: float


def rank_correlation(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b between two lists of scores of the same children.

    Raises:
        ConfigError: fewer than two children, different lengths, or a NaN. Infinite scores are allowed.

    >>> rank_correlation([1, 2, 3, 4], [1, 2, 4, 3])
    0.6666666666666666
    """
    first, second = check_scores(a, ndim=1), check_scores(b, ndim=1)
    if first.shape != second.shape:
        raise ConfigError(f"both rankings must score the same children, but got {len(first)} and {len(second)}.")
    return float(rank_correlations(first[None], second[None])[0, 0])


def rank_correlations(a: ArrayLike, b: ArrayLike) -> Floats:
    """Kendall's tau-b between every ranking of ``a``, [n, children], and every one of ``b``, [m, children]: [n, m].

    Raises:
        ConfigError: fewer than two children, different children, or a NaN. Infinite scores are allowed.
    """
    first, second = check_scores(a, ndim=2), check_scores(b, ndim=2)
    if first.shape[1] != second.shape[1]:
        raise ConfigError(
            f"both rankings must score the same children, but got {first.shape[1]} and {second.shape[1]}."
        )
    untied = np.outer(untied_pairs(first), untied_pairs(second))
    with np.errstate(invalid="ignore"):
        correlations: Floats = concordances(first, second) / np.sqrt(untied)
    return correlations


def pair_signs(scores: Floats) -> Floats:
    """The order of every pair of children: 1, 0 or -1; shape [..., children] becomes [..., pairs]. For few of them."""
    first, second = np.triu_indices(scores.shape[-1], k=1)
    with np.errstate(invalid="ignore"):
        difference = scores[..., first] - scores[..., second]
    # Two infinite scores of one sign differ by NaN, and are tied.
    return np.sign(np.nan_to_num(difference, nan=0.0, posinf=1.0, neginf=-1.0))


def rank_stability(rankings: ArrayLike) -> float:
    """How alike the rankings of several instances are: S-Tau, the mean of Eq. 2 over all pairs of instances.

    >>> rank_stability([[1, 2, 3], [1, 2, 3], [3, 2, 1]])
    -0.3333333333333333
    """
    return stability(rankings).mean


def stability(rankings: ArrayLike) -> Stability:
    """S-Tau with the largest and the smallest correlation of a pair: a row of the paper's Table 1."""
    scores = check_scores(rankings, ndim=2)
    if len(scores) < 2:
        raise ConfigError(f"stability needs at least 2 rankings, but got {len(scores)}.")
    pairs = rank_correlations(scores, scores)[np.triu_indices(len(scores), k=1)]
    return Stability(float(pairs.mean()), float(pairs.max()), float(pairs.min()))


def truth_correlation(scores: ArrayLike, truth: ArrayLike) -> float | Floats:
    """How far scores, [children] or [steps, children] for a value a step, order the children as the truth: GT-Tau."""
    true = check_scores(truth, ndim=1)
    values = np.asarray(scores, dtype=float)
    if values.ndim == 1:
        return rank_correlation(values, true)
    if values.ndim == 2 and values.shape[1] != len(true):
        raise ConfigError(f"scores must cover the {len(true)} children of the truth, but cover {values.shape[1]}.")
    return rank_correlations(values, true[None])[:, 0]


def top_n_rank(scores: ArrayLike, truth: ArrayLike, n: int) -> int:
    """The true rank of the best child among the n highest scores: TnR; 1 is best.

    Where children are tied at the edge of the n, the choice is undecided; the pessimistic one is taken, that is, of
    tied children the truly worst are picked first. True ranks of tied children are the best of the tie.

    >>> top_n_rank(scores=[0.9, 0.8, 0.1], truth=[0.2, 0.5, 0.7], n=2)
    2
    """
    values, true = _covered(scores, truth)
    count: object = n
    if not isinstance(count, Integral) or not 1 <= n <= len(values):
        raise ConfigError(f"n must be a whole number between 1 and the {len(values)} children, but got {n!r}.")
    chosen = np.lexsort((true, -values))[:n]
    return int(rankdata(-true, method="min")[chosen].min())


def ranks(scores: ArrayLike) -> Floats:
    """The rank of every child, 1 for the highest score, ties at their mean rank; shape as ``scores``."""
    values = np.asarray(scores, dtype=float)
    if np.isnan(values).any():
        raise ConfigError("scores must not be NaN.")
    ranked: Floats = rankdata(-values, method="average", axis=-1)
    return ranked


def kept_best(scores: ArrayLike, truth: ArrayLike, *, pruned: float = 0.5, best: float = 0.25) -> float:
    """The share of the truly best children that survive when the worst-scored ones are pruned.

    ``pruned`` is the share of children that is pruned, ``best`` that of the children that count as truly best.

    >>> kept_best(scores=[4, 3, 2, 1], truth=[1, 4, 3, 2], best=0.5)
    0.5
    """
    values, true = _covered(scores, truth)
    if not (0 <= pruned < 1 and 0 < best <= 1):
        raise ConfigError(f"pruned must lie in [0, 1) and best in (0, 1], but got {pruned} and {best}.")
    num_kept = len(values) - int(len(values) * pruned)
    num_best = max(1, round(len(values) * best))
    kept = np.lexsort((true, -values))[:num_kept]
    truly_best = np.argsort(-true, kind="stable")[:num_best]
    return float(np.isin(truly_best, kept).mean())


def discounted_gain(scores: ArrayLike, truth: ArrayLike, n: int | None = None) -> float:
    """How much of the truth the highest scores gather, earlier ones counting more: nDCG, 1 at best.

    The gain of a child is its true score above the worst, divided by the range; the child at place i of the order is
    divided by log2(i + 1). Divided by what the true order gathers. Of tied scores the truly worst come first.

    Args:
        scores: [children].
        truth: [children].
        n: how many of the highest scores count; all if none.

    >>> round(discounted_gain(scores=[3, 2, 1], truth=[0.5, 1.0, 0.0]), 4)
    0.8597
    """
    values, true = _covered(scores, truth)
    gains = (true - true.min()) / (np.ptp(true) or 1.0)
    weights = 1 / np.log2(np.arange(len(values)) + 2)
    weights[len(values) if n is None else n :] = 0.0
    best = float(np.sort(gains)[::-1] @ weights)
    return float(gains[np.lexsort((true, -values))] @ weights) / best if best > 0 else 1.0


def top_precision(scores: ArrayLike, truth: ArrayLike, k: int) -> float:
    """The share of the k highest scores that are among the truly best k: precision at k.

    Of tied scores the truly worst come first; a child as good as the k-th best is one of the best.

    >>> top_precision(scores=[4, 3, 2, 1], truth=[4, 1, 3, 2], k=2)
    0.5
    """
    values, true = _covered(scores, truth)
    if not 1 <= k <= len(values):
        raise ConfigError(f"k must be between 1 and the {len(values)} children, but got {k}.")
    chosen = np.lexsort((true, -values))[:k]
    return float((true[chosen] >= np.sort(true)[-k]).mean())


def regret(scores: ArrayLike, truth: ArrayLike, n: int = 1) -> float:
    """How much truth is lost by taking the best of the n highest scores in place of the best there is; 0 at best.

    >>> regret(scores=[3, 2, 1], truth=[0.5, 0.75, 0.25])
    0.25
    """
    values, true = _covered(scores, truth)
    if not 1 <= n <= len(values):
        raise ConfigError(f"n must be between 1 and the {len(values)} children, but got {n}.")
    return float(true.max() - true[np.lexsort((true, -values))[:n]].max())


def top_correlation(scores: ArrayLike, truth: ArrayLike, *, share: float = 0.5) -> float:
    """Kendall's tau-b among the truly best ``share`` of the children, where a search has to choose.

    Correlations over all children are mostly made of the bad ones, which any ranking tells from the good ones. At least
    two children count, and all that are as good as the last of them.

    >>> top_correlation(scores=[4, 3, 1, 2], truth=[4, 3, 2, 1]), rank_correlation([4, 3, 1, 2], [4, 3, 2, 1])
    (1.0, 0.6666666666666666)
    """
    values, true = _covered(scores, truth)
    if not 0 < share <= 1:
        raise ConfigError(f"share must lie in (0, 1], but got {share}.")
    least = np.sort(true)[-max(2, round(share * len(true)))]
    return rank_correlation(values[true >= least], true[true >= least])


def reliability_of_mean(correlation: float, num_seeds: float) -> float:
    """The reliability of a mean over seeds, from the correlation of single seeds (Spearman and Brown).

    >>> round(reliability_of_mean(0.5, 3), 2)
    0.75
    """
    return num_seeds * correlation / (1 + (num_seeds - 1) * correlation)


def _covered(scores: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    values, true = check_scores(scores, ndim=1), check_scores(truth, ndim=1)
    if values.shape != true.shape:
        raise ConfigError(f"scores must cover the {len(true)} children of the truth, but cover {len(values)}.")
    return values, true


def check_scores(scores: ArrayLike, ndim: int) -> Floats:
    """The scores as an array of floats, or a ``ConfigError`` that says what is wrong with them."""
    try:
        values = np.asarray(scores, dtype=float)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"scores must be numbers, but got {type(scores).__name__}: {error}.") from None
    if values.ndim != ndim:
        raise ConfigError(f"scores must have {ndim} dimension(s), but have shape {values.shape}.")
    if values.shape[-1] < 2:
        raise ConfigError(f"a ranking needs at least 2 children, but got {values.shape[-1]}.")
    if np.isnan(values).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(values))[0])
        raise ConfigError(f"scores must not be NaN, but the one at {where} is.")
    return values
