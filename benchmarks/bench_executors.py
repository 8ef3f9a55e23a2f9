"""What an executor adds to the trainings themselves: Ray over processes, and inline over a bare loop.

A training of the first comparison sleeps for a second: what is left is the executor's own time, on a busy machine too.
Both are warm, with torch imported in their workers; what the start of each took stands beside the figure. The second
comparison is in CPU time, with a short training of about 25 ms: longer ones would hide more of what inline adds.
"""

from __future__ import annotations

import time

import torch
from torch import nn

from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds, remark_on_others
from ramet.errors import MissingExtraError
from ramet.execution import Executor, Inline, Processes, Ray, WorkItem

NUM_TRAININGS, WORKERS, SECONDS, ROUNDS = 64, 2, 1.0, 2


def run() -> list[Row]:
    return [*_ray_over_processes(), _inline_over_a_loop()]


def rest(context: object, seconds: float) -> float:
    """As long as a training, and without work."""
    time.sleep(seconds)
    return seconds


def train(context: torch.Tensor, seed: int) -> float:
    """A small training without noise of its own."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = network(context).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def _ray_over_processes() -> list[Row]:
    name = f"{NUM_TRAININGS} trainings of {SECONDS:g} s, {WORKERS} workers: ray / processes"
    try:
        executors: dict[str, Executor] = {"processes": Processes(WORKERS), "ray": Ray(WORKERS)}
    except MissingExtraError:
        return []
    remark = remark_on_others()
    starts, seconds = {}, {}
    for kind, executor in executors.items():
        starts[kind] = _seconds(executor, WORKERS, 0.2)
        seconds[kind] = float("inf")
    for _ in range(ROUNDS):
        for kind, executor in executors.items():
            seconds[kind] = min(seconds[kind], _seconds(executor, NUM_TRAININGS, SECONDS))
    detail = f"{seconds['ray']:.2f} / {seconds['processes']:.2f} s, sleeping; their starts, once a command, took "
    detail += f"{starts['ray']:.1f} / {starts['processes']:.1f} s more{remark}"
    return [Row(name=name, value=seconds["ray"] / seconds["processes"], limit=1.10, detail=detail)]


def _seconds(executor: Executor, num_tasks: int, seconds: float) -> float:
    tasks = [WorkItem(str(index), rest, {"seconds": seconds}) for index in range(num_tasks)]
    start = time.perf_counter()
    assert len(list(executor.run(tasks, label=""))) == num_tasks
    return time.perf_counter() - start


def _inline_over_a_loop() -> Row:
    """What inline adds to a task, from tasks without work, against the least that a training takes.

    Timed with their trainings, both differ by 10 % from run to run on a shared machine: more than there is to measure.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # As inline does, so that it is not credited for that.
    data = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    tasks = [WorkItem(str(place), rest, {"seconds": 0.0}) for place in range(100)]
    try:
        training, loop, inline = cpu_milliseconds(
            lambda: train(data, 0),
            lambda: [rest(data, 0.0) for _ in tasks],
            lambda: list(Inline().run(tasks, data, label="")),
        )
    finally:
        torch.set_num_threads(threads)
    added = (inline - loop) / len(tasks)
    detail = f"{1000 * added:.0f} microseconds a task, to a training of {training:.1f} ms"
    return Row(name="trainings: inline / bare loop", value=1 + added / training, limit=1.02, detail=detail)
