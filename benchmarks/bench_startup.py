"""How long `ramet --help` takes: torch must not be imported for it."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from benchmarks.rows import Row
from benchmarks.timing import other_load

COMMAND = [sys.executable, "-m", "ramet", "--help"]


def run() -> list[Row]:
    remark = other_load()
    seconds, cpu = [], []
    for _ in range(8):  # the first one may have to compile the files
        before, start = _cpu_of_children(), time.perf_counter()
        subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
        cpu.append(_cpu_of_children() - before)
    detail = f"least of {len(seconds)}; CPU time {min(cpu):.2f} s{remark}"
    return [Row(name="ramet --help", value=min(seconds), limit=1.0, unit=" s", detail=detail)]


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
