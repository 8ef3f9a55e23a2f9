"""How much training some architectures disturbs others that were trained before: functions of arrays, nothing else.

Reference: *Disturbance-immune weight sharing for neural architecture search*, sections 3.2 and 5.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ramet.errors import ConfigError
from ramet.ranking.metrics import Floats, check_scores, pair_signs, rank_correlation, rank_stability


def prediction_disturbance(before: ArrayLike, after: ArrayLike) -> float | Floats:
    """How far the predictions of an architecture moved while others were trained (Eq. 3), in the Frobenius norm.

    ``before`` are predictions with the weights that the architecture was left with, [..., samples, classes], ``after``
    those of the same samples now; a value for each of the leading shape. Divided by the root of the number of samples,
    it no longer depends on that number.

    Raises:
        ConfigError: the shapes differ, or are not at least [samples, classes].

    >>> prediction_disturbance([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [4.0, 4.0]])
    5.0
    """
    old, new = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if old.shape != new.shape or old.ndim < 2:
        raise ConfigError(
            f"predictions must have one shape [..., samples, classes], but got {old.shape} and {new.shape}."
        )
    norms: Floats = np.sqrt(np.square(new - old).sum(axis=(-2, -1)))
    return float(norms) if norms.ndim == 0 else norms


def performance_change(accuracies: ArrayLike, interval: int, *, absolute: bool = False) -> Floats:
    """The mean over architectures of how much their accuracy changes over an interval of epochs (section 5.3).

    The paper's change is signed, over 13 epochs. A supernet that still learns has a positive one, disturbed or not, and
    losses of some architectures cancel gains of others; ``absolute`` counts both as changes. Accuracies are [epochs,
    architectures], and the result has a value for each epoch that has one so many epochs after it.

    Raises:
        ConfigError: the interval is not between 1 and the epochs minus one.

    >>> performance_change([[0.5, 0.5], [0.6, 0.4], [0.9, 0.9]], 1, absolute=True).round(2).tolist()
    [0.1, 0.4]
    """
    values = _over_epochs(accuracies, interval)
    change = values[interval:] - values[:-interval]
    mean: Floats = (np.abs(change) if absolute else change).mean(axis=1)
    return mean


def rank_consistency(accuracies: ArrayLike, interval: int) -> Floats:
    """Kendall's tau-b between the ranking after each epoch and the one an interval later (section 5.3, KTau; 13 there).

    Accuracies are [epochs, architectures]; the result is [epochs - interval], NaN where all of a ranking are equal.

    Raises:
        ConfigError: the interval is not between 1 and the epochs minus one.

    >>> rank_consistency([[1, 2, 3], [1, 2, 3], [3, 2, 1]], 1).tolist()
    [1.0, -1.0]
    """
    values = _over_epochs(accuracies, interval)
    later = values[interval:]
    return np.array([rank_correlation(now, then) for now, then in zip(values, later, strict=False)])


def accuracy_drops(accuracies: ArrayLike) -> Floats:
    """How much accuracy each architecture of a sequence has lost after each later one (Figure 1b, as losses).

    From the accuracy of architecture i after the training of architecture j, [..., n, n], to what i had just after its
    own training minus what it has after that of j. What stands below the diagonal, before an architecture was trained,
    is not read, and becomes NaN.

    Raises:
        ConfigError: the last two dimensions differ, or there are fewer than two architectures.

    >>> accuracy_drops([[0.9, 0.7], [0.1, 0.8]]).round(2).tolist()
    [[0.0, 0.2], [nan, 0.0]]
    """
    values = np.asarray(accuracies, dtype=float)
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] or values.shape[-1] < 2:
        raise ConfigError(f"accuracies must have the shape [..., n, n] with n at least 2, but have {values.shape}.")
    own = np.diagonal(values, axis1=-2, axis2=-1)[..., None]
    drops: Floats = np.where(np.triu(np.ones(values.shape[-2:], dtype=bool)), own - values, np.nan)
    return drops


def drops_by_distance(accuracies: ArrayLike) -> Floats:
    """The mean drop of ``accuracy_drops`` after 1, 2, ... n - 1 later architectures, shape [..., n - 1].

    >>> drops_by_distance([[0.9, 0.7, 0.5], [0.0, 0.8, 0.7], [0.0, 0.0, 0.9]]).round(2).tolist()
    [0.15, 0.4]
    """
    drops = accuracy_drops(accuracies)
    distances = range(1, drops.shape[-1])
    means: Floats = np.stack([np.diagonal(drops, d, axis1=-2, axis2=-1).mean(axis=-1) for d in distances], axis=-1)
    return means


def growth_within_rows(disturbances: ArrayLike) -> Floats:
    """Whether what later architectures do to an earlier one grows with their number, from -1 to 1 (Figure 1b).

    Kendall's tau between j and the disturbance of architecture i after the training of j, [..., n, n], within the row
    of each i that has two later ones or more, then the mean over rows: rows differ in how much can be disturbed at all,
    so that they are not mixed. What stands on and below the diagonal is not read. A row without a change counts as 0.

    Raises:
        ConfigError: the last two dimensions differ, or there are fewer than three architectures.

    >>> float(growth_within_rows([[0.0, 0.1, 0.2, 0.3], [0.0, 0.0, 0.9, 0.8], [0.0] * 4, [0.0] * 4]))
    0.0
    """
    found = np.asarray(disturbances, dtype=float)
    size = found.shape[-1]
    if found.ndim < 2 or found.shape[-2] != size or size < 3:
        raise ConfigError(f"disturbances must have the shape [..., n, n] with n at least 3, but have {found.shape}.")
    rows = []
    for place in range(size - 2):
        signs = pair_signs(found[..., place, place + 1 :])  # [..., pairs], earlier less later of each pair
        num_changed = np.abs(signs).sum(axis=-1)
        rising = -signs.sum(axis=-1)
        # tau-b against an order without ties
        rows.append(rising / np.sqrt(np.maximum(num_changed, 1) * signs.shape[-1]))
    mean: Floats = np.asarray(np.mean(rows, axis=0))
    return mean


def stability_gain(
    scores: ArrayLike, baseline: ArrayLike, *, generator: np.random.Generator, num_resamples: int = 1000
) -> Floats:
    """By how much S-Tau exceeds a baseline's, and the ends of its 95 % interval over children: [value, low, high].

    Scores are [instances, children]. The interval is paired: both see the same resampled children. A child drawn twice
    is tied with itself in both, and tau-b leaves ties out.
    """
    ours, theirs = check_scores(scores, ndim=2), check_scores(baseline, ndim=2)
    if ours.shape[1] != theirs.shape[1] or min(len(ours), len(theirs)) < 2:
        raise ConfigError(
            f"a gain in stability needs two instances or more of the same children each, "
            f"but got {ours.shape} and {theirs.shape}."
        )

    def gain(children: NDArray[np.int64]) -> float:
        return rank_stability(ours[:, children]) - rank_stability(theirs[:, children])

    num_children = ours.shape[1]
    drawn = [gain(row) for row in generator.integers(num_children, size=(num_resamples, num_children))]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return np.array([gain(np.arange(num_children)), low, high])


def _over_epochs(accuracies: ArrayLike, interval: int) -> Floats:
    values = check_scores(accuracies, ndim=2)
    if not 1 <= interval < len(values):
        raise ConfigError(f"interval must be between 1 and {len(values) - 1} of these epochs, but got {interval}.")
    return values
