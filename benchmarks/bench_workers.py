"""The truth of a dozen small children, with one worker and with two: wall-clock time, so it needs a quiet machine."""

from __future__ import annotations

import time

from benchmarks.rows import Row
from benchmarks.timing import remark_on_others
from ramet.data import load
from ramet.execution import WorkItem, make_executor
from ramet.ranking.alone import train_alone
from ramet.ranking.setup import SupernetSetup
from ramet.spaces import Cells64
from ramet.training import Settings

NUM_CHILDREN, EPOCHS, ROUNDS = 12, 20, 2


def run() -> list[Row]:
    remark = remark_on_others()
    settings = Settings(epochs=EPOCHS, batch_size=64, learning_rate=0.05)
    setup = SupernetSetup(Cells64(channels=8, num_cells=2), load("digits"), settings)
    # Spread over the space, so that cheap and expensive children are among them.
    indices = [place * len(setup.space) // NUM_CHILDREN for place in range(NUM_CHILDREN)]
    tasks = [WorkItem(f"child-{index}", train_alone, {"index": index, "seed": 0}) for index in indices]
    seconds = {1: float("inf"), 2: float("inf")}
    for _ in range(ROUNDS):
        for workers in seconds:
            start = time.perf_counter()
            list(make_executor(workers).run(tasks, setup))
            seconds[workers] = min(seconds[workers], time.perf_counter() - start)
    detail = f"{seconds[1]:.1f} / {seconds[2]:.1f} s, {NUM_CHILDREN} children on digits, starting workers included"
    name = "truth: 1 worker / 2 workers"
    return [Row(name=name, value=seconds[1] / seconds[2], limit=1.7, at_least=True, detail=detail + remark)]
