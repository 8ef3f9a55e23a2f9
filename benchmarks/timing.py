"""CPU time of things that are compared with each other, measured in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def cpu_milliseconds(*functions: Callable[[], object], repeats: int = 15) -> list[float]:
    """The least CPU time of a call of each, in turns of about 10 ms: a shared machine disturbs that little.

    Turns put a change of the clock or of the neighbours' load on all functions alike, and the least of several is what
    the work itself costs: whatever disturbs only adds.
    """
    calls, best = [], [float("inf")] * len(functions)
    for function in functions:
        function()
        start = time.process_time()
        function()
        calls.append(max(1, int(0.01 / max(time.process_time() - start, 1e-5))))
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            for _ in range(calls[i]):
                function()
            best[i] = min(best[i], 1000 * (time.process_time() - start) / calls[i])
    return best


def other_load() -> str:
    """A remark for wall-clock figures, if others use the machine too; empty on a quiet one."""
    load = os.getloadavg()[0]
    return f"; load {load:.1f} before it: NOT a quiet machine" if load > 0.5 else ""
