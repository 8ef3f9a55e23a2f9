"""What a piece of work costs in a process of its own: CPU seconds and the most memory; and how that grows with size."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaigns.drivers import fork


@dataclass(frozen=True)
class Cost:
    """What a process took, its children included; ``figures`` are what the work itself gave."""

    seconds: float
    megabytes: float
    figures: dict[str, Any]


def cost_of(work: Callable[[], dict[str, Any] | None], folder: Path) -> Cost:
    """Do something in a forked process.

    Raises:
        RuntimeError: It failed; the last line that it wrote says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer = folder / "figures.json"

    def noting() -> None:
        _forget_peak()
        answer.write_text(json.dumps(work() or {}))

    driver = fork(noting, folder / "errors")
    _, status, used = os.wait4(driver.pid, 0)
    if status or not answer.exists():
        raise RuntimeError(f"exit code {os.waitstatus_to_exitcode(status)}: {' / '.join(driver.errors()[-2:])}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, json.loads(answer.read_text()))


def _forget_peak() -> None:
    """Count the peak of this process' memory anew; it began with that of its parent."""
    Path("/proc/self/clear_refs").write_text("5")


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The power by which something grows, whatever it takes at any size: p of c + a n^p.

    Sizes that have one ratio make it easy: what a value is above the one before grows by the same power, and c is gone.
    The slope of a straight line through the logarithms of these differences, by least squares.

    >>> round(exponent([500, 1000, 2000, 4000], [2.5, 3.0, 4.0, 6.0]), 3)
    1.0
    >>> round(exponent([1, 2, 4, 8], [1.1, 1.4, 2.6, 7.4]), 3)
    2.0
    """
    steps = [max(after - before, 1e-9) for before, after in itertools.pairwise(values)]
    points = [(math.log(size), math.log(step)) for size, step in zip(sizes[1:], steps, strict=True)]
    x, y = (sum(point[place] for point in points) / len(points) for place in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def n_log_n(sizes: Sequence[int]) -> float:
    """The power that n log n seems to have over some sizes.

    >>> round(n_log_n([500, 1000, 2000, 4000]), 2)
    1.12
    """
    return exponent(sizes, [size * math.log(size) for size in sizes])
