"""How long `ramet --help` takes: torch must not be imported for it.

CPU time is what is held to the limit, since it does not depend on who else uses the machine; on a quiet one a user
waits as long as that. The wall-clock time stands beside it.
"""

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
    detail = f"CPU time, least of {len(cpu)}; {min(seconds):.2f} s by the clock{remark}"
    return [Row(name="ramet --help", value=min(cpu), limit=1.0, unit=" s", detail=detail)]


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
