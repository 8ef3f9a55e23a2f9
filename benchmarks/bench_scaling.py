"""What the simulator says about many workers, and how far it is off where that can be measured: at one and two.

Trainings are the truth of children of NAS-Bench-201's space, small, on digits. Each is timed alone, in this process;
from these times the simulator predicts the wall-clock in worker processes, which then run the same trainings. Small
probes of their own give what else it needs: the start of a worker, what it adds to a task, and how much two workers
slow each other down on one memory. Nothing comes from the runs that are predicted.

Wall-clock of trainings needs a quiet machine. Others disturb the CPU time of the busiest worker less, and tasks that
only sleep hardly: these check the policy with more workers than there are cores, and with a worker that dies at a known
time.

Last, the whole space in the benchmark's own size: seconds for an image are measured for some children, the others are
drawn from these, and failures, stragglers and start-up are assumed, as the constants below say.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from benchmarks.resting import rest
from benchmarks.rows import Row
from benchmarks.simulation import Cluster, Fate, Played, least_seconds, predict, simulate
from benchmarks.timing import remark_on_others
from ramet.data import load
from ramet.execution import Executor, Inline, Processes, WorkItem
from ramet.ranking.alone import train_alone
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.truth import TruthCache
from ramet.runs import Run
from ramet.spaces import NasBench201
from ramet.training import Settings

NUM_TRAININGS, EPOCHS, PROBE_EPOCHS, ROUNDS = 20, 4, 1, 3
NUM_SLEEPS, SLEEP_SCALE, LIFETIME = 60, 0.5, 1.5
NUM_CHILDREN, NUM_SIZED, BATCH = 15_625, 24, 32
IMAGES = 12 * 25_000  # the benchmark's short schedule: 12 epochs of half of CIFAR-10
# Assumed, not measured: machines that are rented by the hour, one core a worker.
ASSUMED: dict[str, Any] = {"start": 10.0, "mean_lifetime": 24 * 3600.0, "checkpoint_every": 30.0}
ASSUMED |= {"slow_share": 0.05, "slow_factor": 2.0, "in_advance": False}
LIMIT = 15.0


def run() -> list[Row]:
    setup = SupernetSetup(NasBench201(4, 1), load("digits"), Settings(epochs=EPOCHS, batch_size=64, learning_rate=0.05))
    durations, rows = _trainings(setup)
    return [*rows, *_sleeps(durations), *_whole_space(_seconds_in_the_driver(setup))]


# -- trainings at one and two workers ----------------------------------------------------------------------------------


def train_timed(setup: SupernetSetup, index: int) -> dict[str, float]:
    """The seconds of one training, by the clock and of CPU, and who did it."""
    wall, cpu = time.perf_counter(), time.process_time()
    train_alone(setup, index=index, seed=0)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "worker": os.getpid()}


def _trainings(setup: SupernetSetup) -> tuple[list[float], list[Row]]:
    generator = random.Random(0)
    children = [generator.randrange(len(setup.space)) for _ in range(NUM_TRAININGS)]
    probe = replace(setup, settings=replace(setup.settings, epochs=PROBE_EPOCHS))
    _timed(Inline(), probe, children[:1])  # what a process does once is no part of a training
    sharing = _slowdown_of_two(probe, children[0])
    starts = {workers: _start(probe, children[:workers]) for workers in (1, 2)}
    overhead = _overhead()
    remark = remark_on_others()
    alone, measured = _in_turns(setup, children)
    rows = []
    for workers, (seconds, busiest) in measured.items():
        factor = sharing if workers == 2 else 1.0
        start, cpu_start = starts[workers]
        cluster = Cluster(workers=workers, start=start, overhead=overhead)
        predicted = simulate([factor * result["wall"] for result in alone], cluster).seconds
        cpu = simulate([factor * result["cpu"] for result in alone], replace(cluster, start=cpu_start)).seconds
        detail = f"predicted {predicted:.1f} s, measured {seconds:.1f} s; start {start:.2f} s, "
        detail += f"{1000 * overhead:.1f} ms a task" + f", two slow each other down by {sharing:.2f}" * (workers == 2)
        name = f"{NUM_TRAININGS} trainings, {workers} worker{'s' * (workers > 1)}: "
        rows.append(_off(name + "prediction off by", predicted, seconds, detail + remark))
        detail = f"predicted {cpu:.1f} s, measured {busiest:.1f} s; others disturb this less"
        rows.append(_off(name + "CPU time of the busiest off by", cpu, busiest, detail))
    return [result["cpu"] for result in alone], rows


def _in_turns(
    setup: SupernetSetup, children: list[int]
) -> tuple[list[dict[str, float]], dict[int, tuple[float, float]]]:
    """What each training takes alone, and the wall-clock and the busiest worker's CPU time of all at 1 and 2 workers.

    A virtual machine's speed changes by a quarter within minutes, so what is compared is measured in turns, and of each
    the least counts.
    """
    alone = [{"wall": float("inf"), "cpu": float("inf")} for _ in children]
    measured = dict.fromkeys((1, 2), (float("inf"), float("inf")))
    for _ in range(ROUNDS):
        for best, result in zip(alone, _timed(Inline(), setup, children)[0], strict=True):
            best.update({clock: min(best[clock], result[clock]) for clock in best})
        for workers, (seconds, busiest) in measured.items():
            results, wall = _timed(Processes(workers), setup, children)
            measured[workers] = min(seconds, wall), min(busiest, _busiest(results))
    return alone, measured


def _timed(executor: Executor, setup: SupernetSetup, children: list[int]) -> tuple[list[dict[str, float]], float]:
    """What each training took, and the wall-clock of all."""
    tasks = [WorkItem(f"{place}", train_timed, {"index": index}) for place, index in enumerate(children)]
    start = time.perf_counter()
    results = {task.key: result for task, result in executor.run(tasks, setup, label="")}
    return [results[task.key] for task in tasks], time.perf_counter() - start


def _start(probe: SupernetSetup, children: list[int]) -> tuple[float, float]:
    """From the start of the workers until each could begin a training, with what a process does once; CPU time too."""
    alone = _timed(Inline(), probe, children)[0]
    rounds = [_timed(Processes(len(children)), probe, children) for _ in range(2)]
    wall = min(seconds for _, seconds in rounds) - max(result["wall"] for result in alone)
    # Imports come before a task begins, so this is only what the first training of a process does once.
    cpu = min(max(result["cpu"] for result in results) for results, _ in rounds)
    return max(0.0, wall), max(0.0, cpu - max(result["cpu"] for result in alone))


def _slowdown_of_two(probe: SupernetSetup, child: int) -> float:
    """How much more CPU time a training takes beside another: they share memory and caches. Rounds are in turns."""
    seconds = {1: float("inf"), 2: float("inf")}
    for _ in range(3):
        for workers in seconds:
            results, _ = _timed(Processes(workers), probe, [child] * 4 * workers)
            seconds[workers] = min(seconds[workers], statistics.median(result["cpu"] for result in results))
    return max(1.0, seconds[2] / seconds[1])


def _overhead() -> float:
    few, many = (min(_rest([0.0] * number, 1) for _ in range(2)) for number in (1, 201))
    return max(0.0, (many - few) / 200)


def _busiest(results: list[dict[str, float]]) -> float:
    workers = {result["worker"] for result in results}
    return max(sum(result["cpu"] for result in results if result["worker"] == worker) for worker in workers)


def _off(name: str, predicted: float, measured: float, detail: str) -> Row:
    return Row(name=name, value=100 * abs(predicted / measured - 1), limit=LIMIT, unit=" %", detail=detail)


# -- sleeping tasks: more workers than cores, and a death --------------------------------------------------------------


def _rest(durations: list[float], workers: int, marker: str = "") -> float:
    tasks = [WorkItem(str(place), rest, {"seconds": seconds}) for place, seconds in enumerate(durations)]
    start = time.perf_counter()
    assert len(list(Processes(workers).run(tasks, (marker, LIFETIME), label=""))) == len(durations)
    return time.perf_counter() - start


def _sleeps(measured: list[float]) -> list[Row]:
    generator = random.Random(1)
    durations = [SLEEP_SCALE * generator.choice(measured) for _ in range(NUM_SLEEPS)]
    rows = []
    equal = [2.0] * 8
    for workers, tasks, dies in ((2, durations, False), (8, durations, False), (4, equal, True)):
        start = min(_rest([0.0] * workers, workers) for _ in range(2))
        fates = [Fate(lifetime=LIFETIME)] if dies else []
        cluster = Cluster(workers=workers, start=start)
        predicted = simulate(tasks, cluster, fates=fates).seconds
        with tempfile.TemporaryDirectory() as folder:
            seconds = _rest(tasks, workers, f"{folder}/dies" if dies else "")
        name = f"{len(tasks)} sleeping tasks, {workers} workers{', one dies' * dies}: prediction off by"
        detail = f"predicted {predicted:.2f} s, measured {seconds:.2f} s"
        detail += f"; {simulate(tasks, cluster).seconds:.2f} s if none died" * dies
        rows.append(_off(name, predicted, seconds, detail))
    return rows


# -- the whole space ---------------------------------------------------------------------------------------------------


def _seconds_in_the_driver(setup: SupernetSetup) -> float:
    """What the driver does for one result of the truth: a record and a line of the cache, which goes to the disk."""
    result = {"test": 0.5, "validation": 0.5, "loss": 1.0}
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", "rank", {}) as run:
        cache = TruthCache(Path(folder) / "truth", setup)
        start = time.perf_counter()
        for index in range(100):
            cache.put(index, 0, result)
            run.records.append(f"truth/child-{index}/seed-0", **result)
        return (time.perf_counter() - start) / 100


def _seconds_an_image() -> list[float]:
    """CPU seconds of a training image in the benchmark's size, for some children: forwards and backwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    space, generator = NasBench201(), random.Random(2)
    network = space.supernet(3, 10)
    x, y = torch.randn(BATCH, 3, 32, 32), torch.zeros(BATCH, dtype=torch.long)
    seconds = []
    try:
        for index in [0, *(generator.randrange(len(space)) for _ in range(NUM_SIZED))]:
            start = time.process_time()
            cross_entropy(network(x, space[index]), y).backward()  # type: ignore[no-untyped-call]
            seconds.append((time.process_time() - start) / BATCH)
    finally:
        torch.set_num_threads(threads)
    return seconds[1:]  # the first has warmed up


def _whole_space(driver: float) -> list[Row]:
    sample = [IMAGES * seconds for seconds in _seconds_an_image()]
    durations = random.Random(3).choices(sample, k=NUM_CHILDREN)
    total = sum(durations)
    rows = []
    for workers in (10, 100, 1000):
        cluster = Cluster(workers=workers, driver=driver, **ASSUMED)
        rough = predict(durations, cluster)
        calm = simulate(durations, Cluster(workers=workers, driver=driver, start=ASSUMED["start"], in_advance=False))
        sorted_first = predict(durations, cluster, costs=durations)
        unsaved = predict(durations, replace(cluster, checkpoint_every=float("inf")))
        detail = f"{_hours(rough.mean)} +- {rough.deviation / 3600:.1f} h with failures and stragglers, "
        detail += f"{_hours(calm.seconds)} without, {_hours(least_seconds(durations, workers))} at least; "
        detail += f"{_hours(unsaved.mean)} without checkpoints, {_hours(sorted_first.mean)} if longest first; "
        detail += f"{_mean(rough.runs, 'deaths'):.0f} deaths, {_mean(rough.runs, 'failed'):.1f} children given up "
        detail += (
            f"({_mean(unsaved.runs, 'failed'):.1f} without checkpoints); {total / NUM_CHILDREN / 60:.0f} min a child"
        )
        name = f"truth of {NUM_CHILDREN:,} children, {workers:,} workers: used for training"
        used = 100 * total / (workers * rough.mean)
        rows.append(Row(name=name, value=used, limit=80.0, at_least=True, unit=" %", detail=detail))
    rows[-1] = replace(rows[-1], detail=rows[-1].detail + f"; driver {1000 * driver:.1f} ms a result")
    return rows


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"


def _mean(runs: list[Played], what: str) -> float:
    return statistics.fmean(run.num_deaths if what == "deaths" else len(run.failed) for run in runs)
