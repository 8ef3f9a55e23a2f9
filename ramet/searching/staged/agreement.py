"""How far a cheaper stage agrees with a dearer one, and what follows from it: pure functions of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ramet.ranking.metrics import Floats, rank_correlation, ranks

PRIOR_WEIGHT = 8.0
"""The architectures that a belief from before the run counts as."""
PRIORS = {"scores": 0.2, "shared": 0.3, "predictor": 0.3, "short": 0.5}
"""What is believed of each stage's agreement before anything was measured: little, and more of dearer ones."""


@dataclass(frozen=True)
class Agreement:
    """How far a stage orders some architectures as a dearer one does.

    Attributes:
        stage: the cheaper one.
        measured: Kendall's tau over the architectures that both have; none for fewer than 3, or where one has no order.
        count: how many they are.
    """

    stage: str
    measured: float | None
    count: int

    @property
    def believed(self) -> float:
        """The tau with the belief from before mixed in by counts, never below 0.

        >>> Agreement("shared", 0.7, 8).believed
        0.5
        """
        prior = PRIORS[self.stage]
        if self.measured is None:
            return prior
        mixed = (self.count * self.measured + PRIOR_WEIGHT * prior) / (self.count + PRIOR_WEIGHT)
        return max(0.0, mixed)


def agreement(stage: str, cheap: Sequence[float], dear: Sequence[float]) -> Agreement:
    """The agreement of two lists of scores of the same architectures, higher being better in both."""
    if len(cheap) < 3:
        return Agreement(stage, None, len(cheap))
    tau = rank_correlation(cheap, dear)
    return Agreement(stage, None if tau != tau else tau, len(cheap))


def blend(signals: Mapping[str, Sequence[float] | Floats], weights: Mapping[str, float]) -> Floats:
    """One order of several: the mean rank, each signal by its weight; higher is better, [architectures].

    >>> blend({"a": [3, 2, 1], "b": [1, 2, 3]}, {"a": 1.0, "b": 0.0}).tolist()
    [-1.0, -2.0, -3.0]
    """
    total = sum(weights[name] for name in signals)
    if total <= 0:
        return blend(signals, dict.fromkeys(signals, 1.0))
    mixed: Floats = -sum(weights[name] * ranks(values) for name, values in signals.items()) / total  # type: ignore[assignment]
    return mixed


def first_of_each(orders: Sequence[Sequence[int]], taken: Sequence[int], count: int) -> list[int]:
    """The first architectures of several orders in turns, none twice and none that is taken.

    >>> first_of_each([[5, 6, 7], [6, 8, 9]], taken=[7], count=3)
    [5, 6, 8]
    """
    found: list[int] = []
    seen = set(taken)
    for rank in range(max((len(order) for order in orders), default=0)):
        for order in orders:
            if rank < len(order) and order[rank] not in seen and len(found) < count:
                found.append(order[rank])
                seen.add(order[rank])
    return found


def best_first(values: Sequence[float] | Floats) -> list[int]:
    """Places by value, the highest first; of equal ones the first."""
    return [int(place) for place in np.argsort(-np.asarray(values, dtype=float), kind="stable")]


def standardised(values: Sequence[float] | Floats) -> Floats:
    """Values around their median in units of their spread, 3 at most."""
    return centred(values, spread(values))


def centred(values: Sequence[float] | Floats, unit: float) -> Floats:
    """Values around their median in some unit, 3 at most: one that is far off says no more than that."""
    array = np.asarray(values, dtype=float)
    result: Floats = np.clip((array - np.median(array)) / unit, -3.0, 3.0)
    return result


def spread(values: Sequence[float] | Floats) -> float:
    """The median distance from the median, times 1.4826, which is a normal distribution's deviation.

    Where more than half of the values are the same, their deviation; where all are, 1.
    """
    distance = np.asarray(values, dtype=float) - np.median(values)
    return 1.4826 * float(np.median(np.abs(distance))) or float(distance.std()) or 1.0
