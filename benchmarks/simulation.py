"""How long tasks would take on workers that are not there: the executors' policy, played with measured times."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ramet.errors import ConfigError


@dataclass(frozen=True)
class Fate:
    """What becomes of one worker.

    Args:
        lifetime: Seconds from its first task until it dies.
        slowdown: How many times as long a task takes there.
    """

    lifetime: float = math.inf
    slowdown: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers, and what they cost besides the tasks; all times in seconds.

    Args:
        workers: How many tasks are under way at the same time.
        start: From the start of a worker until it can begin a task; a dead worker's place is filled after as long.
        overhead: What a worker adds to each task.
        driver: What the driver does for each result, one after the other: receive it, write its record, give the next.
        mean_lifetime: Of a worker, exponentially distributed.
        checkpoint_every: How often a task saves itself; whatever came after the last time is lost with its worker.
        slow_share: The probability that a worker is slow.
        slow_factor: How many times as long a task takes on a slow worker.
        attempts: How often a task is begun before it counts as failed, as in ``Processes`` and ``Ray``.
        in_advance: Whether a busy worker holds its next task already, as in ``Processes``; with ``Ray``, none does.

    Raises:
        ConfigError: If a number is out of range.
    """

    workers: int
    start: float = 0.0
    overhead: float = 0.0
    driver: float = 0.0
    mean_lifetime: float = math.inf
    checkpoint_every: float = math.inf
    slow_share: float = 0.0
    slow_factor: float = 1.0
    attempts: int = 3
    in_advance: bool = True

    def __post_init__(self) -> None:
        for name in ("workers", "attempts"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, but got {getattr(self, name)}.")
        for name in ("start", "overhead", "driver"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a number of seconds that ends, but got {getattr(self, name)}.")
        for name in ("mean_lifetime", "checkpoint_every"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, but got {getattr(self, name)}.")
        if not 0 <= self.slow_share <= 1:
            raise ConfigError(f"slow_share must be between 0 and 1, but got {self.slow_share}.")
        if not 1 <= self.slow_factor < math.inf:
            raise ConfigError(f"slow_factor must be at least 1, but got {self.slow_factor}.")

    def fates(self, seed: int) -> Iterator[Fate]:
        """The fates of the workers in the order in which they are started, without end."""
        generator = random.Random(seed)
        while True:
            lifetime = math.inf if math.isinf(self.mean_lifetime) else generator.expovariate(1 / self.mean_lifetime)
            slowdown = self.slow_factor if generator.random() < self.slow_share else 1.0
            yield Fate(lifetime, slowdown)


@dataclass(frozen=True)
class Played:
    """What happened in one simulated run.

    Args:
        seconds: The wall-clock until the driver has the last result.
        num_deaths: Workers that died in the middle of a task.
        lost: Seconds of work that were lost with them, as counted by their own clocks.
        failed: The places of the tasks that were given up.
    """

    seconds: float
    num_deaths: int
    lost: float
    failed: list[int]


@dataclass(frozen=True)
class Prediction:
    """The wall-clock over several seeds: its mean, its standard deviation, and the shortest and the longest run."""

    mean: float
    deviation: float
    low: float
    high: float
    runs: list[Played] = field(repr=False)


def simulate(
    durations: Sequence[float],
    cluster: Cluster,
    *,
    seed: int = 0,
    costs: Sequence[float] | None = None,
    fates: Iterable[Fate] | None = None,
) -> Played:
    """Play one run through.

    The policy is that of ``Processes`` and ``Ray``: tasks with a higher cost first, otherwise in the given order; the
    next task to whichever worker is free; what a dead worker leaves is begun again before all others.

    Args:
        durations: Seconds that each task takes on a worker of ordinary speed.
        cluster: The workers.
        seed: Of the fates that are drawn.
        costs: What the tasks claim to cost (``Task.cost``), all the same if none.
        fates: Of the workers, in the order in which they are started, instead of drawn ones; when there are no more,
            workers are ordinary and do not die.

    Raises:
        ConfigError: If a duration is negative or does not end, or the costs are not as many as the durations.

    Example:
        >>> simulate([3.0, 1.0, 1.0, 1.0], Cluster(workers=2, in_advance=False)).seconds
        3.0
    """
    if not all(0 <= duration < math.inf for duration in durations):
        raise ConfigError("durations must be numbers of seconds that end.")
    if costs is not None and len(costs) != len(durations):
        raise ConfigError(f"there must be a cost for each of the {len(durations)} tasks, but got {len(costs)}.")
    order = sorted(range(len(durations)), key=lambda place: 0.0 if costs is None else -costs[place])
    return _Run(list(durations), order, cluster, iter(cluster.fates(seed) if fates is None else fates)).play()


def predict(
    durations: Sequence[float],
    cluster: Cluster,
    *,
    seeds: Iterable[int] = range(10),
    costs: Sequence[float] | None = None,
) -> Prediction:
    """The wall-clock of all tasks, over several draws of failures and slow workers."""
    runs = [simulate(durations, cluster, seed=seed, costs=costs) for seed in seeds]
    seconds = [run.seconds for run in runs]
    return Prediction(statistics.fmean(seconds), statistics.pstdev(seconds), min(seconds), max(seconds), runs)


def least_seconds(durations: Sequence[float], workers: int) -> float:
    """What no policy can beat on workers of ordinary speed: an even share of the work, or the longest task."""
    return max(math.fsum(durations) / workers, max(durations, default=0.0))


# -- one run -----------------------------------------------------------------------------------------------------------

_READY, _FINISHED, _HANDLED, _DEAD = range(4)


class _Worker:
    """One worker: the tasks that the driver has given it, of which it may have finished the first already."""

    def __init__(self, number: int, fate: Fate) -> None:
        self.number = number
        self.fate = fate
        self.is_ready = False
        self.is_dead = False
        self.tasks: deque[int] = deque()
        self.num_finished = 0  # of these, waiting for the driver
        self.began_at: float | None = None  # when its running task began; none while it idles


class _Run:
    """The driver and its workers, as a queue of events."""

    def __init__(self, left: list[float], order: list[int], cluster: Cluster, fates: Iterator[Fate]) -> None:
        self._left = left  # what each task still takes, on a worker of ordinary speed
        self._waiting = deque(order)
        self._cluster = cluster
        self._fates = fates
        self._workers: dict[int, _Worker] = {}
        self._num_lost = [0] * len(left)
        self._events: list[tuple[float, int, int, _Worker]] = []
        self._order = itertools.count()  # events of one moment come in the order in which they were made
        self._driver_free_at = 0.0
        self._num_open = len(left)
        self._num_started = self._num_deaths = 0
        self._lost = 0.0
        self._failed: list[int] = []

    def play(self) -> Played:
        now = 0.0
        self._fill_up(now)
        while self._num_open:
            now, _, kind, worker = heapq.heappop(self._events)
            if worker.is_dead:
                continue  # What it would have done, it does not.
            if kind == _READY:
                worker.is_ready = True
                self._push(now + worker.fate.lifetime, _DEAD, worker)
                self._hand_out(now, [worker])
            elif kind == _FINISHED:
                worker.num_finished += 1
                worker.began_at = None
                self._begin(now, worker)
                self._driver_free_at = max(now, self._driver_free_at) + self._cluster.driver
                self._push(self._driver_free_at, _HANDLED, worker)
            elif kind == _HANDLED:
                worker.tasks.popleft()
                worker.num_finished -= 1
                self._num_open -= 1
                self._hand_out(now, [worker])
            else:
                self._bury(now, worker)
        # Results of workers that died meanwhile may still be in the driver's hands.
        return Played(max(now, self._driver_free_at), self._num_deaths, self._lost, sorted(self._failed))

    def _push(self, time: float, kind: int, worker: _Worker) -> None:
        if time < math.inf:
            heapq.heappush(self._events, (time, next(self._order), kind, worker))

    def _fill_up(self, now: float) -> None:
        """Start as many workers as have something to do."""
        num_busy = sum(bool(worker.tasks) for worker in self._workers.values())
        while len(self._workers) < min(self._cluster.workers, len(self._waiting) + num_busy):
            worker = _Worker(self._num_started, next(self._fates, Fate()))
            self._num_started += 1
            self._workers[worker.number] = worker
            self._push(now + self._cluster.start, _READY, worker)

    def _hand_out(self, now: float, workers: Sequence[_Worker]) -> None:
        """Give each idle worker a task, and each busy one its next while that leaves enough for the others."""
        for worker in workers:
            if self._waiting and worker.is_ready and not worker.tasks:
                self._give(now, worker)
        if not self._cluster.in_advance:
            return
        for worker in workers:
            if len(self._waiting) > self._cluster.workers and worker.is_ready and len(worker.tasks) == 1:
                self._give(now, worker)

    def _give(self, now: float, worker: _Worker) -> None:
        worker.tasks.append(self._waiting.popleft())
        if worker.began_at is None:
            self._begin(now, worker)

    def _begin(self, now: float, worker: _Worker) -> None:
        """Let a worker take up the first task that it has not finished."""
        if len(worker.tasks) > worker.num_finished:
            worker.began_at = now
            seconds = (self._left[worker.tasks[worker.num_finished]] + self._cluster.overhead) * worker.fate.slowdown
            self._push(now + seconds, _FINISHED, worker)

    def _bury(self, now: float, worker: _Worker) -> None:
        """Take back what a dead worker had, and put another in its place."""
        worker.is_dead = True
        del self._workers[worker.number]
        for _ in range(worker.num_finished):  # These results are in the connection, and will be read.
            worker.tasks.popleft()
            self._num_open -= 1
        if worker.began_at is not None:
            task = worker.tasks.popleft()
            self._waiting.extendleft(worker.tasks)  # These had not begun, so they lose no attempt.
            self._keep_checkpoint(task, now - worker.began_at, worker.fate.slowdown)
            self._num_deaths += 1
            self._num_lost[task] += 1
            if self._num_lost[task] < self._cluster.attempts:
                self._waiting.appendleft(task)
            else:
                self._failed.append(task)
                self._num_open -= 1
        self._fill_up(now)
        self._hand_out(now, list(self._workers.values()))

    def _keep_checkpoint(self, task: int, seconds: float, slowdown: float) -> None:
        """Shorten a task by what it had saved, and count what it had not."""
        every = self._cluster.checkpoint_every
        saved = 0.0 if math.isinf(every) else seconds // every * every
        self._lost += seconds - saved
        overhead = self._cluster.overhead * slowdown  # of the attempt, not of the task: spent before the first step
        self._left[task] = max(0.0, self._left[task] - max(0.0, saved - overhead) / slowdown)
