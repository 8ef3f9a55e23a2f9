"""What task 50 costs over task 5: the work must not grow with the tasks, apart from looking for what to share."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.rows import Row
from ramet.continual import make_method, make_skeleton, make_stream
from ramet.training import Settings

NUM_TASKS, EARLY, LATE = 50, range(3, 8), range(45, 50)  # around task 5 (the fourth to the eighth), and the last five
TURNS = 5
SETTINGS = Settings(epochs=1, batch_size=16, learning_rate=0.05, final_learning_rate=0.0, weight_decay=0.0)
# A matrix of samples x samples for each layer of each earlier task would take 48 MB with as many validation images.
SIZES = {"train_size": 400, "eval_size": 200}
# Each method, and the function in which it looks through all that was learned before.
METHODS = {
    "bind-and-grow": "methods.bind_and_grow.method.measure_conflicts",
    # Without a limit a task's mask keeps most neurons of all tasks before it, as in the paper, and costs accordingly.
    "firefly:reuse=1": "methods.firefly.method.train_masks",
}


@dataclass(frozen=True)
class Cost:
    """What one task cost: CPU milliseconds without the search, those of the search, and bytes while it was learned."""

    work: float
    search: float
    peak: int
    parameters: int
    stored: int


def run() -> list[Row]:
    rows = []
    for method, search in METHODS.items():
        turns = [measure(method, search) for _ in range(TURNS)]
        costs = [least(same) for same in zip(*turns, strict=True)]
        # The least of five tasks each, in several turns: whatever disturbs only adds.
        work = [min(costs[place].work for place in places) for places in (EARLY, LATE)]
        # Task t looks through t tasks; a search that takes time even where there is nothing may grow more slowly.
        each = [min(costs[place].search / place for place in places) for places in (EARLY, LATE)]
        peak = [min(costs[place].peak for place in places) for places in (EARLY, LATE)]
        grown = costs[LATE[-1]].stored - costs[EARLY[-1]].stored
        bytes_each = [costs[place].stored / costs[place].parameters for place in (EARLY[-1], LATE[-1])]
        name = method.partition(":")[0]
        rows += [
            Row(
                name=f"{name}: work of task 50 over task 5",
                value=work[1] / work[0],
                limit=1.5,
                detail=f"{work[0]:.0f} and {work[1]:.0f} CPU ms, looking through earlier tasks left out",
            ),
            Row(
                name=f"{name}: looking, per earlier task, 50 over 5",
                value=each[1] / each[0],
                limit=1.5,
                detail=f"{each[0]:.2f} and {each[1]:.2f} CPU ms for each earlier task",
            ),
            Row(
                name=f"{name}: memory that task 50 takes beyond task 5",
                value=(peak[1] - peak[0] - grown) / 1e6,
                limit=32.0,
                unit=" MB",
                detail=f"peak while learning, beyond what the network itself grew by ({grown / 1e6:.2f} MB)",
            ),
            Row(
                name=f"{name}: stored bytes a parameter, 50 over 5",
                value=bytes_each[1] / bytes_each[0],
                limit=1.1,
                detail=f"{bytes_each[0]:.2f} and {bytes_each[1]:.2f}; {costs[LATE[-1]].parameters:,} parameters",
            ),
        ]
    return rows


def least(costs: Sequence[Cost]) -> Cost:
    """What a task cost in the turn that was disturbed least; the network is the same in each."""
    first = costs[0]
    work, search, peak = (min(getattr(cost, name) for cost in costs) for name in ("work", "search", "peak"))
    return Cost(work, search, peak, first.parameters, first.stored)


def measure(spec: str, search: str) -> list[Cost]:
    """Learn all tasks, and give what each cost; measuring the tasks learned is left out."""
    stream = make_stream(f"permuted-digits:{NUM_TASKS}", **SIZES)
    channels, height, width = stream.input_shape
    method = make_method(spec)
    method.start(make_skeleton("mlp:32,32", in_channels=channels, image_size=(height, width)), SETTINGS, seed=0)
    costs = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with timed(search) as spent:
            for task in stream:
                data = task.data("cpu")
                forget_peak()
                searched, start = spent[0], time.process_time()
                method.learn(data)
                total, looked = time.process_time() - start, spent[0] - searched
                costs.append(
                    Cost(
                        1000 * (total - looked), 1000 * looked, peak_bytes(), method.num_parameters(),
                        method.stored_bytes(),
                    )
                )  # fmt: skip
                data.close()
    finally:
        torch.set_num_threads(threads)
    return costs


@contextmanager
def timed(name: str) -> Iterator[list[float]]:
    """The CPU seconds spent in ``ramet.continual.MODULE.FUNCTION`` so far, in a list of one."""
    where, _, function = name.rpartition(".")
    module = importlib.import_module(f"ramet.continual.{where}")
    real, spent = getattr(module, function), [0.0]

    def replaced(*arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return real(*arguments, **options)
        finally:
            spent[0] += time.process_time() - start

    setattr(module, function, replaced)
    try:
        yield spent
    finally:
        setattr(module, function, real)


def forget_peak() -> None:
    """From now on count the peak of this process' memory anew; Linux only."""
    Path(f"/proc/{os.getpid()}/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory that this process held since then."""
    for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("the peak of a process' memory must be in /proc, but is not.")
