"""From data to pixels: ranges, round ticks, linear and logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ramet.reports.formats import Number, as_number, significant


def finite(values: Iterable[Number]) -> list[float]:
    """The values that can be drawn, in their order."""
    return [real for value in values if (real := as_number(value)) is not None]


@dataclass(frozen=True)
class Scale:
    """A straight map from a range of data to a range of pixels, through the logarithm if ``log``.

    ``whole`` says that only whole numbers mean something (epochs, ranks), so that no tick falls between them.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (
            (math.log10(self.low), math.log10(self.high), math.log10(value))
            if self.log
            else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def shows(self, value: Number) -> bool:
        """Whether a value has a place on this scale."""
        real = as_number(value)
        return real is not None and (real > 0 or not self.log)

    def ticks(self, target: int = 5) -> list[float]:
        """About ``target`` round values inside the range."""
        if self.log:
            return log_ticks(self.low, self.high, target)
        return round_ticks(self.low, self.high, target, whole=self.whole)


def data_range(
    values: Iterable[Number], *, include: Iterable[float] = (), log: bool = False, margin: float = 0.04
) -> tuple[float, float]:
    """The range that an axis shows: all values and all of ``include``, with a little air, never of zero length.

    >>> data_range([]), data_range([3.0, 3.0]), data_range([0.0, 10.0], margin=0.1)
    ((0.0, 1.0), (2.5, 3.5), (-1.0, 11.0))
    """
    shown = [value for value in [*finite(values), *include] if value > 0 or not log]
    if not shown:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = min(shown), max(shown)
    if log:
        air = max(math.log10(high / low) * margin, 0.05)
        return low / 10**air, high * 10**air
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # equal but for rounding: there is no scale in the data
        half = 0.5 if 0.5 <= abs(low) <= 1000 or low == 0 else abs(low) / 2
        return low - half, high + half
    air = (high - low) * margin
    return low - air, high + air


def round_ticks(low: float, high: float, target: int = 5, *, whole: bool = False) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) inside a range.

    >>> round_ticks(0.13, 0.92), round_ticks(0, 3, whole=True)
    ([0.2, 0.4, 0.6, 0.8], [0.0, 1.0, 2.0, 3.0])
    """
    power = 10.0 ** math.floor(math.log10((high - low) / max(target, 1)))
    step = min((multiple * power for multiple in (1, 2, 5, 10)), key=lambda each: abs((high - low) / each - target))
    if whole:
        step = max(step, 1.0)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(index * step, digits) + 0.0 for index in range(first, last + 1)]


def log_ticks(low: float, high: float, target: int = 5) -> list[float]:
    """Powers of ten inside a range, with their multiples of 2 and 5 where the powers alone are too few.

    >>> log_ticks(900, 120_000), log_ticks(15, 60)
    ([1000.0, 10000.0, 100000.0], [20.0, 50.0])
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in ((1,), (1, 2, 5), tuple(range(1, 10))):
        ticks = [multiple * 10.0**exponent for exponent in exponents for multiple in multiples]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) >= min(3, target) or (len(ticks) >= 2 and len(multiples) > 1):
            break
    stride = math.ceil(len(ticks) / (2 * target)) if ticks else 1
    return ticks[::stride] or [low, high]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The texts of ticks, all with the same number of decimals and the same unit.

    >>> tick_texts([0.0, 0.25, 0.5]), tick_texts([0, 50_000, 100_000]), tick_texts([1000, 1_000_000])
    (['0', '0.25', '0.50'], ['0', '50k', '100k'], ['1k', '1M'])
    """
    return [_tick_text(tick) for tick in ticks] if _varies_widely(ticks) else _aligned(ticks)


def _varies_widely(ticks: Sequence[float]) -> bool:
    largest = max((abs(tick) for tick in ticks), default=0.0)
    return largest >= 10_000 or (0 < largest < 1e-4)


def _aligned(ticks: Sequence[float]) -> list[str]:
    digits = max((_num_decimals(tick) for tick in ticks), default=0)
    return ["0" if tick == 0 else f"{tick:,.{digits}f}".replace("-", "−") for tick in ticks]


def _num_decimals(tick: float) -> int:
    return next((digits for digits in range(9) if math.isclose(round(tick, digits), tick, abs_tol=1e-12)), 9)


def _tick_text(tick: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(tick) >= unit:
            return f"{significant(tick / unit, 4)}{name}".replace("-", "−")
    return significant(tick, 3).replace("-", "−")
