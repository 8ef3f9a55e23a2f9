"""The peak memory of `ramet rank` on digits: the command and its workers together."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row

# Memory depends on the space, the data, the instances' evaluations and the workers, not on how long trainings are.
OPTIONS = ["--data", "digits", "--workers", "2", "--epochs", "2", "--instances", "2", "--truth-seeds", "1"]
SECONDS_BETWEEN_LOOKS = 0.1


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        out = [f"--out={folder}/run", f"--truth-cache={folder}/truth", "--json"]
        with open(f"{folder}/result.json", "wb") as result:
            process = subprocess.Popen([sys.executable, "-m", "ramet", "rank", *OPTIONS, *out], stdout=result)
            peak = largest = num_processes = 0
            while process.poll() is None:
                sizes = [size for pid in tree(process.pid) if (size := resident_bytes(pid))]
                peak, num_processes = max(peak, sum(sizes)), max(num_processes, len(sizes))
                largest = max([largest, *sizes])
                time.sleep(SECONDS_BETWEEN_LOOKS)
        if process.returncode != 0:
            raise RuntimeError(f"ramet rank ended with exit code {process.returncode}.")
    detail = (
        f"sum over {num_processes} processes, the largest {largest / 1e9:.2f} GB; memory that they share counts once"
    )
    return [Row(name="peak memory of ramet rank", value=peak / 1e9, limit=1.5, unit=" GB", detail=detail)]


def tree(pid: int) -> list[int]:
    """A process and all that descend from it; Linux only."""
    pids = [pid]
    for place in pids:  # grows while it is walked
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{place}/task").iterdir():
                pids += map(int, (thread / "children").read_text().split())
    return pids


def resident_bytes(pid: int) -> int:
    """What a process holds in memory: its share of pages that it has in common with others (PSS)."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0
