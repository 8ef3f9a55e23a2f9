"""From what a claim asks to its answer: comparisons that know when nothing can be said, and how parts make a whole."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from ramet.reports import Estimate


def conclude(parts: Mapping[str, bool | None], unmet: Sequence[str] = ()) -> tuple[bool | None, str]:
    """The answer to a claim, and a sentence on what it fails in or on why there is none.

    One part that does not hold decides. Where none fails, a part that was not measured leaves the claim open. How the
    figures had to be measured comes first: if they were not, whatever they say is no answer.

    Args:
        parts: what the claim asks, in words, and whether it is so; none where it is not known.
        unmet: the rules of measuring that were not kept, in words.

    >>> conclude({"smaller": True, "better": None})
    (None, ' Not answered: better.')
    >>> conclude({"smaller": False, "better": None})
    (False, ' Not so: smaller. Not known: better.')
    """
    if unmet:
        return None, f" Not answered: {'; '.join(unmet)}."
    failed = [words for words, answer in parts.items() if answer is not None and not answer]
    unknown = [words for words, answer in parts.items() if answer is None]
    if failed:
        return False, f" Not so: {'; '.join(failed)}." + (f" Not known: {'; '.join(unknown)}." if unknown else "")
    if unknown:
        return None, f" Not answered: {'; '.join(unknown)}."
    return True, ""


def _unless_nan(compare: Callable[[float, float], bool], words: str) -> Callable[[float, float], bool | None]:
    def known(value: float, limit: float) -> bool | None:
        return None if math.isnan(value) or math.isnan(limit) else bool(compare(value, limit))

    known.__doc__ = f"Whether a value {words} a limit; none for NaN."
    return known


at_least, at_most = _unless_nan(operator.ge, "reaches"), _unless_nan(operator.le, "keeps within")
above, below = _unless_nan(operator.gt, "exceeds"), _unless_nan(operator.lt, "falls short of")


def surely_positive(estimate: Estimate) -> bool | None:
    """Whether the whole interval lies above 0; none without an interval."""
    return estimate.is_above_zero if estimate.has_interval else None


def surely_negative(estimate: Estimate) -> bool | None:
    """Whether the whole interval lies below 0; none without an interval."""
    return estimate.is_below_zero if estimate.has_interval else None


def not_negative(estimate: Estimate) -> bool | None:
    """Whether a difference is not below 0: its mean is not. It is, if its whole interval is; between them none knows.

    A mean below 0 whose interval has 0 in it says neither, and the fewer the seeds, the wider the interval: that is no
    evidence of equality.

    >>> [not_negative(Estimate(mean, mean - 1, mean + 1)) for mean in (0.0, -0.5, -2.0)]
    [True, None, False]
    """
    mean = estimate.value
    if mean is None or math.isnan(mean):
        return None
    if mean >= 0:
        return True
    return False if estimate.is_below_zero else None
