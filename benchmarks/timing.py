"""CPU time of things that are compared with each other, measured in turns."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path


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


def keep_memory() -> None:
    """Let the C library keep what tensors free, for all of the process.

    Otherwise it hands large pieces back to the system, which clears them page by page when they are wanted again: up to
    a fifth of a step, for one of two equal loops and not for the other, as the heap happens to lie.
    """
    with contextlib.suppress(OSError, AttributeError):  # other systems have no such call
        library = ctypes.CDLL(None)
        for option, value in ((_M_MMAP_THRESHOLD, 1 << 30), (_M_TRIM_THRESHOLD, (1 << 31) - 1)):
            library.mallopt(option, value)


_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1
"""Of the C library's ``mallopt``."""


def remark_on_others() -> str:
    """A remark for wall-clock figures, if others use the processors while we sleep; empty on a quiet machine."""
    before, start = _busy_seconds(), time.perf_counter()
    time.sleep(1.0)
    busy = (_busy_seconds() - before) / (time.perf_counter() - start)
    return f"; others keep {busy:.1f} of {os.cpu_count()} cores busy: NOT a quiet machine" if busy > 0.2 else ""


def _busy_seconds() -> float:
    """CPU seconds of all processes since the start of the machine; Linux only."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")
