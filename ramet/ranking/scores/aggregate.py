"""Several scores as one: by their ranks, which is all that they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from ramet.errors import ConfigError
from ramet.ranking.metrics import Floats, check_scores, ranks


def combine_ranks(scores: Iterable[Floats | Sequence[float]], *, by: Literal["mean", "logarithm"] = "mean") -> Floats:
    """The mean of several rankings, each with the same weight: higher is better, as in what it is made of.

    Scores of different kinds have nothing in common but their order, so that only ranks can be added. Equal weights
    need no truth to be chosen by. Each is [children]; minus infinity is allowed, NaN is not. Gives minus the mean rank,
    ties at their mean rank.

    By ``logarithm`` it is instead the mean of log(n + 1 - rank), as in AZ-NAS and VKDNW: an architecture that one score
    puts last is not saved by the others.

    >>> combine_ranks([[0.1, 0.5, 0.3], [7.0, 9.0, 8.0]]).tolist()
    [-3.0, -1.0, -2.0]
    """
    placed = [ranks(check_scores(values, ndim=1)) for values in scores]
    if not placed or len({len(row) for row in placed}) != 1:
        raise ConfigError(f"rankings must score the same children, but score {[len(row) for row in placed]}.")
    if by == "logarithm":
        placed = [-np.log(len(row) + 1 - row) for row in placed]
    mean: Floats = -sum(placed) / len(placed)  # type: ignore[assignment]
    return mean
