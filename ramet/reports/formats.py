"""How values are written for people: numbers, intervals, percentages, counts, durations and sizes.

Each function takes a number and gives a short string, the same for the terminal and for the page. A value that is not
there (``None`` or NaN) is a dash, never the word ``nan``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

MISSING = "–"

Number: TypeAlias = float | int | None
Format: TypeAlias = Callable[[float], str]


@dataclass(frozen=True)
class Estimate:
    """A measured value with the interval that its uncertainty allows.

    >>> Estimate(0.512, 0.43, 0.58).text()
    '0.51 [0.43, 0.58]'
    >>> Estimate(0.512).text()
    '0.51'
    """

    value: Number
    low: Number = None
    high: Number = None

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the interval are known."""
        return as_number(self.low) is not None and as_number(self.high) is not None

    @property
    def is_above_zero(self) -> bool:
        """Whether the whole interval is; without an interval nothing is sure.

        >>> Estimate(0.5, 0.1, 0.9).is_above_zero, Estimate(0.5, -0.1, 1.1).is_above_zero, Estimate(0.5).is_above_zero
        (True, False, False)
        """
        low = as_number(self.low)
        return low is not None and low > 0

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is; without an interval nothing is sure.

        >>> Estimate(-0.5, -0.9, -0.1).is_below_zero, Estimate(-0.5, -1.1, 0.1).is_below_zero
        (True, False)
        """
        high = as_number(self.high)
        return high is not None and high < 0

    def text(self, form: Format | None = None) -> str:
        """The value and, where it is known, the interval in brackets."""
        interval = self.interval_text(form)
        return write(self.value, form) + (f" {interval}" if interval else "")

    def interval_text(self, form: Format | None = None) -> str:
        """The interval alone, or nothing where it is not known."""
        return f"[{write(self.low, form)}, {write(self.high, form)}]" if self.has_interval else ""


def as_number(value: object) -> float | None:
    """A value as a number that can be drawn, or None: for words, truth values, NaN and infinities.

    >>> as_number(2), as_number(float("nan")), as_number(True), as_number("2")
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    result = float(value)
    return result if math.isfinite(result) else None


def write(value: object, form: Format | None = None) -> str:
    """A value as text: through ``form`` if it is a finite number, a dash if it is missing.

    >>> write(0.5), write(None), write(float("nan")), write(float("inf")), write(True)
    ('0.50', '–', '–', '∞', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return MISSING
    if not isinstance(value, Real):
        return str(value)
    real = float(value)
    if math.isnan(real):
        return MISSING
    if math.isinf(real):
        return "∞" if real > 0 else "-∞"
    return (form or number)(real)


def number(value: float, digits: int = 2) -> str:
    """A number with a fixed count of decimals.

    >>> number(0.512), number(-0.001), number(12345.678, 1)
    ('0.51', '0.00', '12,345.7')
    """
    return f"{value:z,.{digits}f}"  # z: never "-0.00"


def decimals(digits: int) -> Format:
    """The format ``number`` with another count of decimals, for a column of a table.

    >>> decimals(3)(0.51249)
    '0.512'
    """
    return lambda value: number(value, digits)


def significant(value: float, figures: int = 3) -> str:
    """A number with a fixed count of leading figures, for read-outs whose scale is not known beforehand.

    >>> significant(0.0123456), significant(1234.5), significant(2.0), significant(3.2e-9)
    ('0.0123', '1,234', '2', '3.2e-09')
    """
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude > 14:
        return f"{value:.{figures}g}"
    text = f"{value:,.{max(0, figures - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float, digits: int = 1) -> str:
    """A fraction as a percentage.

    >>> percent(0.9312), percent(1, 0)
    ('93.1 %', '100 %')
    """
    return f"{number(100 * value, digits)} %"


def in_points(share: Number) -> float | None:
    """A share, or a difference of shares, in points of a hundred, for charts and columns."""
    return None if share is None else 100 * share


def count(value: float) -> str:
    """A count, exact below a hundred thousand and rounded to three figures above.

    >>> count(12345), count(1_234_567), count(15_300_000_000)
    ('12,345', '1.23 M', '15.3 G')
    """
    if abs(value) < 99_999.5:
        return f"{round(value):,}"
    return _with_prefix(value, 1000.0, ("k", "M", "G", "T", "P"))


def size(num_bytes: float) -> str:
    """A number of bytes, in steps of 1,000.

    >>> size(512), size(63_200_000)
    ('512 B', '63.2 MB')
    """
    if abs(num_bytes) < 999.5:
        return f"{round(num_bytes)} B"
    return _with_prefix(num_bytes, 1000.0, ("kB", "MB", "GB", "TB", "PB"))


def times(value: float) -> str:
    """A factor.

    >>> times(3.24), times(12.4), times(0.05)
    ('3.2×', '12×', '0.05×')
    """
    return f"{significant(value, 2)}×"


def duration(seconds: float) -> str:
    """A length of time in the one or two units that matter.

    >>> duration(0.0123), duration(4.25), duration(192), duration(3780), duration(180_000)
    ('12 ms', '4.2 s', '3 min 12 s', '1 h 03 min', '2 d 2 h')
    """
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def _with_prefix(value: float, base: float, prefixes: tuple[str, ...]) -> str:
    scaled = abs(value)
    for prefix in prefixes:
        scaled /= base
        # 999.5 would round to 1,000 of this prefix, which reads better as 1 of the next.
        if scaled < 999.5 or prefix == prefixes[-1]:
            break
    return f"{'-' if value < 0 else ''}{significant(scaled)} {prefix}"
