"""The simulator plays the executors' policy: hand-worked runs, bounds, and the real hand-out on a simulated clock."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field

import pytest

from benchmarks.simulation import Cluster, Fate, least_seconds, predict, simulate
from ramet.errors import ConfigError
from ramet.execution import Processes


def drawn_durations(seed: int, number: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.lognormvariate(0, 1) for _ in range(number)]


# -- hand-worked runs --------------------------------------------------------------------------------------------------


def test_one_worker_takes_the_sum_and_what_comes_with_each_task():
    assert simulate([3, 1, 2], Cluster(workers=1)).seconds == 6
    assert simulate([3, 1, 2], Cluster(workers=1, start=5, overhead=0.5, in_advance=False)).seconds == 12.5


def test_equal_tasks_come_in_rounds():
    assert simulate([2.0] * 9, Cluster(workers=4)).seconds == 6  # three rounds: 4 + 4 + 1
    assert simulate([2.0] * 9, Cluster(workers=4, start=1)).seconds == 7
    assert simulate([2.0] * 3, Cluster(workers=4)).seconds == 2


def test_nothing_to_do_takes_no_time():
    assert simulate([], Cluster(workers=4, start=1)).seconds == 0


def test_expensive_tasks_begin_first_if_they_say_so():
    durations = [1, 1, 1, 1, 4]
    assert simulate(durations, Cluster(workers=2)).seconds == 6  # 1 1 | 1 1 | 4
    assert simulate(durations, Cluster(workers=2, in_advance=False), costs=durations).seconds == 4  # 4 | 1 1 1 1
    # The worker of the long task is ready first, and holds a short one in advance.
    assert simulate(durations, Cluster(workers=2), costs=durations).seconds == 5  # 4 1 | 1 1 1


def test_the_driver_is_one_at_a_time():
    # Four results at second 1; the driver takes 0.5 for each, and the next task of a worker waits for it.
    cluster = Cluster(workers=4, driver=0.5, in_advance=False)
    assert simulate([1.0] * 4, cluster).seconds == 1 + 4 * 0.5
    # From second 1 on the driver is never free: 8 results of 0.5 each.
    assert simulate([1.0] * 8, cluster).seconds == 1 + 8 * 0.5
    # A task in advance hides the driver, but the last task of all is never held in advance.
    assert simulate([1.0] * 3, Cluster(workers=1, driver=0.5, in_advance=False)).seconds == 3 * 1.5
    assert simulate([1.0] * 3, Cluster(workers=1, driver=0.5)).seconds == 2 + 0.5 + 1.5


def test_a_straggler_takes_fewer_tasks_but_what_it_holds_it_holds():
    fates = [Fate(slowdown=4), Fate()]
    # Second 4: the slow one has done 1 of 5 tasks of a second, the other 4.
    assert simulate([1.0] * 5, Cluster(workers=2, in_advance=False), fates=fates).seconds == 4
    # With a task in advance, the slow one holds a second: 8 seconds.
    assert simulate([1.0] * 5, Cluster(workers=2), fates=fates).seconds == 8


def test_a_dead_workers_task_is_begun_again():
    # The first worker dies at 5 in a task of 8; its successor is ready at 5 + 1 and does it whole.
    run = simulate([8.0, 8.0], Cluster(workers=2, start=1), fates=[Fate(lifetime=4)])
    assert (run.seconds, run.num_deaths, run.lost, run.failed) == (1 + 4 + 1 + 8, 1, 4, [])


def test_a_checkpoint_keeps_what_came_before_it():
    # Dies 5 s into a task of 8, saved at 2 and at 4: 1 s is lost, 4 s are left.
    run = simulate([8.0], Cluster(workers=1, checkpoint_every=2), fates=[Fate(lifetime=5)])
    assert (run.seconds, run.lost) == (5 + 4, 1)
    # A worker of half the speed has saved 2 s of the task by then, and 6 are left.
    run = simulate([8.0], Cluster(workers=1, checkpoint_every=2), fates=[Fate(lifetime=5, slowdown=2)])
    assert (run.seconds, run.lost) == (5 + 6, 1)
    # The overhead of an attempt is spent again: 1 + 4 s done at death, of which the task's 3 are saved.
    run = simulate([8.0], Cluster(workers=1, checkpoint_every=2, overhead=1), fates=[Fate(lifetime=5)])
    assert run.seconds == 5 + 1 + (8 - 3)


def test_a_task_is_given_up_after_three_deaths_and_the_others_go_on():
    run = simulate([8.0, 1.0], Cluster(workers=1), fates=[Fate(lifetime=2)] * 3)
    assert (run.seconds, run.num_deaths, run.failed) == (6 + 1, 3, [0])
    run = simulate([8.0, 1.0], Cluster(workers=1), fates=[Fate(lifetime=2)] * 2)
    assert (run.seconds, run.failed) == (4 + 8 + 1, [])


def test_a_task_in_advance_loses_no_attempt_with_its_worker():
    # The worker holds tasks 0 and 1. It dies three times in task 0; task 1 has its three attempts still.
    fates = [Fate(lifetime=2)] * 3 + [Fate(lifetime=0.5)] * 2
    run = simulate([8.0, 1.0, 1.0], Cluster(workers=1), fates=fates)
    assert (run.seconds, run.failed) == (3 * 2 + 2 * 0.5 + 2, [0])


def test_what_a_dead_worker_held_goes_before_all_others():
    # It dies at 0.5 with tasks 0 and 1. The other, which has task 2, gets 0 in advance; its successor begins 1 at once.
    run = simulate([2.0, 6.0, 1.0, 1.0, 1.0], Cluster(workers=2), fates=[Fate(lifetime=0.5)])
    assert run.seconds == 0.5 + 6


def test_a_worker_that_dies_idle_costs_nothing():
    run = simulate([2.0, 6.0], Cluster(workers=2), fates=[Fate(lifetime=4)])
    assert (run.seconds, run.num_deaths) == (6, 0)


# -- bounds and draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_runs_lie_between_the_bounds(seed):
    durations = drawn_durations(seed, 60)
    workers = 1 + seed % 9
    bound = least_seconds(durations, workers)
    for in_advance in (False, True):
        assert simulate(durations, Cluster(workers=workers, in_advance=in_advance)).seconds >= bound - 1e-9
    # While a worker is free no task waits, so all are busy until the last one begins: Graham's bound.
    graham = (math.fsum(durations) - max(durations)) / workers + max(durations)
    assert simulate(durations, Cluster(workers=workers, in_advance=False)).seconds <= graham + 1e-9


def test_the_same_seed_gives_the_same_run_and_failures_cost_time():
    durations = drawn_durations(0, 300)
    cluster = Cluster(workers=7, start=0.1, mean_lifetime=20, slow_share=0.2, slow_factor=3)
    assert simulate(durations, cluster, seed=4) == simulate(durations, cluster, seed=4)
    assert simulate(durations, cluster, seed=4) != simulate(durations, cluster, seed=5)
    calm = predict(durations, Cluster(workers=7, start=0.1))
    rough = predict(durations, cluster)
    assert calm.deviation == 0 and calm.low == calm.high == calm.mean
    assert rough.low > calm.mean and rough.deviation > 0
    assert rough.low <= rough.mean <= rough.high


def test_deaths_come_as_often_as_the_lifetime_says():
    # 2,000 s of work and a mean lifetime of 20 s, all of it kept by checkpoints: about 100 deaths.
    cluster = Cluster(workers=5, mean_lifetime=20, checkpoint_every=0.001, attempts=1000)
    run = simulate([1.0] * 2000, cluster)
    assert 70 <= run.num_deaths <= 130
    assert run.seconds == pytest.approx(400, rel=0.02)


def test_slow_workers_are_as_many_as_the_share_says():
    fates = Cluster(workers=1, slow_share=0.25, slow_factor=2).fates(0)
    slow = sum(next(fates).slowdown == 2 for _ in range(4000))
    assert 900 <= slow <= 1100


# -- the executor's own hand-out on a simulated clock ------------------------------------------------------------------


@dataclass
class FakeWorker:
    """What ``Processes`` sees of a worker; it works on a clock of the test's."""

    durations: dict[int, float]
    clock: list[float]
    is_ready: bool = False
    tasks: deque[int] = field(default_factory=deque)
    free_at: float = 0.0
    ends: deque[float] = field(default_factory=deque)

    def give(self, task: int) -> None:
        self.tasks.append(task)
        self.free_at = max(self.free_at, self.clock[0]) + self.durations[task]
        self.ends.append(self.free_at)


def seconds_of_processes(durations: list[float], num_workers: int) -> float:
    """Drive ``Processes._hand_out`` itself, result by result."""
    executor, clock = Processes(num_workers), [0.0]
    waiting = deque(range(len(durations)))
    workers = [FakeWorker(dict(enumerate(durations)), clock) for _ in range(min(num_workers, len(durations)))]
    for worker in workers:  # They are forked one after the other, so they become ready one after the other.
        worker.is_ready = True
        executor._hand_out(waiting, workers)  # type: ignore[arg-type]
    while any(worker.tasks for worker in workers):
        worker = min((worker for worker in workers if worker.tasks), key=lambda worker: worker.ends[0])
        clock[0] = worker.ends.popleft()
        worker.tasks.popleft()
        executor._hand_out(waiting, workers)  # type: ignore[arg-type]
    assert not waiting
    return clock[0]


@pytest.mark.parametrize("seed", range(30))
def test_the_policy_is_that_of_the_processes(seed):
    durations = drawn_durations(seed, 5 + 3 * seed)
    num_workers = 1 + seed % 8
    assert simulate(durations, Cluster(workers=num_workers)).seconds == pytest.approx(
        seconds_of_processes(durations, num_workers), rel=1e-12
    )


# -- bad input, weight -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be at least 1"),
        ({"workers": 1, "attempts": 0}, "attempts must be at least 1"),
        ({"workers": 1, "start": -1.0}, "start must be"),
        ({"workers": 1, "driver": math.nan}, "driver must be"),
        ({"workers": 1, "mean_lifetime": 0.0}, "mean_lifetime must be positive"),
        ({"workers": 1, "slow_share": 1.5}, "slow_share must be between"),
        ({"workers": 1, "slow_factor": 0.5}, "slow_factor must be at least"),
    ],
)
def test_impossible_clusters_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Cluster(**options)


def test_impossible_tasks_are_refused():
    with pytest.raises(ConfigError, match="durations must be"):
        simulate([1.0, math.inf], Cluster(workers=1))
    with pytest.raises(ConfigError, match="a cost for each of the 2 tasks, but got 1"):
        simulate([1.0, 1.0], Cluster(workers=1), costs=[1.0])


def test_it_needs_no_torch():
    code = "import sys, benchmarks.simulation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
