"""Intervals of a difference between two measurements of the same examples."""

from __future__ import annotations

import math

from scipy.stats import binom, norm

from ramet.errors import ConfigError
from ramet.reports import Estimate


def paired_share_interval(num_lost: int, num_gained: int, num_examples: int, *, confidence: float = 0.95) -> Estimate:
    """How far a share of right examples fell, (lost - gained) / n, with its interval over examples.

    Only the examples that changed say anything. The interval is Tango's, the differences that a score test of the
    paired shares does not reject. At a difference of 0 the exact test of McNemar decides besides, whether a fair coin
    falls that often to one side: where it does not reject 0, the interval holds it. So if nothing changed in truth, at
    most (1 - confidence) / 2 of such intervals lie above 0, whatever the number of examples.

    Raises:
        ConfigError: negative counts, more changes than examples, a confidence outside (0, 1).

    >>> paired_share_interval(30, 10, 1000).text(lambda value: f"{value:.4f}")
    '0.0200 [0.0080, 0.0336]'
    >>> paired_share_interval(5, 0, 1000).low  # five heads in a row: 1 in 32
    0.0

    References: Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, 1998. McNemar, 1947, in its exact form.
    """
    if min(num_lost, num_gained) < 0 or num_lost + num_gained > num_examples or num_examples < 1:
        raise ConfigError(
            f"lost and gained must be parts of the examples, but got {num_lost} and {num_gained} of {num_examples}."
        )
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie in (0, 1), but got {confidence}.")
    tail = (1 - confidence) / 2
    low = _least_difference(num_lost, num_gained, num_examples, tail)
    high = -_least_difference(num_gained, num_lost, num_examples, tail)
    return Estimate((num_lost - num_gained) / num_examples, low, high)


def one_sided_mcnemar(num_lost: int, num_gained: int) -> float:
    """The probability that a fair coin, thrown once for each change, shows at least so many losses.

    >>> one_sided_mcnemar(3, 0)
    0.125
    """
    return float(binom.sf(num_lost - 1, num_lost + num_gained, 0.5))


def _least_difference(lost: int, gained: int, count: int, tail: float) -> float:
    quantile = float(norm.ppf(1 - tail))
    below, above = -1.0, (lost - gained) / count  # the score test rejects all below, and not the estimate itself
    for _ in range(60):
        middle = (below + above) / 2
        if lost - gained - count * middle > quantile * math.sqrt(_variance(lost, gained, count, middle)):
            below = middle
        else:
            above = middle
    if above > 0 and one_sided_mcnemar(lost, gained) > tail:
        return 0.0
    return above


def _variance(lost: int, gained: int, count: int, difference: float) -> float:
    """Of lost - gained if the shares differ by ``difference``, with the likeliest share of gains under that."""
    square, linear = 2 * count, -lost - gained + (2 * count - lost + gained) * difference
    constant = -gained * difference * (1 - difference)
    share = (math.sqrt(max(linear**2 - 4 * square * constant, 0.0)) - linear) / (2 * square)
    return max(count * (2 * share + difference * (1 - difference)), 0.0)
