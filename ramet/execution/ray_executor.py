"""Tasks on a Ray cluster: one that exists, or one of our own on this machine."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from ramet.errors import ConfigError
from ramet.execution.executor import Attempts, Done, Executor, Outcome
from ramet.execution.numerics import Numerics, check_number
from ramet.execution.ray_cluster import check_address, connect, import_ray
from ramet.execution.ray_worker import Board, RayJob, Unopened, run_task, versions
from ramet.execution.sharing import put_context
from ramet.execution.tasks import WorkItem
from ramet.execution.worker import Broken

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_CANCEL = 10.0


class Ray(Executor):
    """Runs tasks in the workers of a Ray cluster; expensive tasks start first.

    The driver alone hands out tasks and takes results, so a task that is lost with its worker or its node is known and
    given to another. The context lies in Ray's object store, once, and each node's workers share one copy of it.

    Every node needs the driver's versions of Python, Ray, torch, NumPy and ramet, and sees the driver's working folder
    under the same name, because trainings keep their checkpoints in the run directory.

    Args:
        workers: How many tasks are under way at the same time.
        address: Of an existing cluster, ``HOST:PORT``, ``ray://HOST:PORT`` or ``auto``; without one, a cluster is
            started on this machine, on its loopback interface, and ends with this process.
        cpus: What a task asks for; Ray starts no more tasks on a node than fit there. It is for scheduling only: torch
            has ``threads`` threads.
        gpus: The same of GPUs; a task sees those that it was given.
        attempts: How often a task is begun before it counts as failed.
        threads: The number of threads that torch may use in each task.

    Raises:
        MissingExtraError: If Ray is not installed.
        ConfigError: If a number is out of range, or no fitting cluster answers at the address.
    """

    def __init__(
        self,
        workers: int,
        *,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        attempts: int = 3,
        threads: int = 1,
    ) -> None:
        self.num_workers = check_number("workers", workers)
        self._num_attempts = check_number("attempts", attempts)
        for name, share in (("CPUs", cpus), ("GPUs", gpus)):
            if not (math.isfinite(share) and share >= 0 and (share <= 1 or share == int(share))):
                raise ConfigError(
                    f"the {name} of a training must be a share of one or a whole number, but got {share}."
                )
        self._address = None if address is None else check_address(address)
        self._cpus, self._gpus = float(cpus), float(gpus)
        self._threads = check_number("threads of a task", threads)
        import_ray(address)
        if address is not None:
            self._connect()  # Now, because a wrong address is bad input; our own cluster is started when needed.

    def _stream(
        self, tasks: Sequence[WorkItem], context: object, on_pulse: Callable[[WorkItem, float], None]
    ) -> Generator[tuple[WorkItem, Outcome], None, None]:
        if not tasks:
            return
        ray = self._connect()
        self._check_request(ray)
        board = ray.remote(Board).options(num_cpus=0).remote() if _is_watched() else None
        job = RayJob(
            context=[put_context(ray, context)],
            numerics=Numerics.of_this_process(),
            threads=self._threads,
            folder=os.getcwd(),
            path=sys.path,
            versions=versions(),
            board=board,
        )
        submit = partial(self._submit, ray, ray.remote(run_task), job)
        pulses = _RayPulses(ray, board)
        attempts = Attempts(self._num_attempts)
        waiting = deque(sorted(tasks, key=lambda task: -task.cost))
        running: dict[Any, WorkItem] = {}
        try:
            while waiting or running:
                self._hand_out(submit, attempts, waiting, running)
                ready, _ = ray.wait(list(running), timeout=_SECONDS_BETWEEN_LOOKS)
                for key, fraction in pulses.take():
                    for task in running.values():
                        if task.key == key:
                            on_pulse(task, fraction)
                for reference in ready:
                    task = running.pop(reference)
                    outcome = _outcome(ray, reference, task, attempts)
                    if outcome is None:
                        waiting.appendleft(task)
                    else:
                        self._hand_out(submit, attempts, waiting, running)
                        yield task, outcome
        finally:
            _cancel(ray, running)
            if board is not None:
                with contextlib.suppress(Exception):
                    ray.kill(board)

    def _connect(self) -> ModuleType:
        return connect(self._address, cpus=self.num_workers * self._cpus, gpus=self.num_workers * self._gpus)

    def _check_request(self, ray: ModuleType) -> None:
        """Refuse what no node can give, because Ray would wait for such a node for ever."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= self._cpus and node.get("GPU", 0) >= self._gpus for node in nodes):
            most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in ("CPU", "GPU")}
            raise ConfigError(
                f"a node must have what a training asks for ({self._cpus:g} CPUs and {self._gpus:g} GPUs), but none "
                f"does; the largest have {most['CPU']:g} CPUs and {most['GPU']:g} GPUs."
            )

    def _hand_out(
        self,
        submit: Callable[[WorkItem, bool], Any],
        attempts: Attempts,
        waiting: deque[WorkItem],
        running: dict[Any, WorkItem],
    ) -> None:
        """Let as many tasks be under way as there are workers; the others wait here, not in the cluster."""
        while waiting and len(running) < self.num_workers:
            task = waiting.popleft()
            running[submit(task, attempts.of(task) > 0)] = task

    def _submit(self, ray: ModuleType, function: Any, job: RayJob, task: WorkItem, is_repeated: bool) -> Any:
        """Give a task to Ray; gives the reference of its outcome."""
        options = {
            "name": task.key,
            "num_cpus": self._cpus,
            "num_gpus": self._gpus,
            "max_retries": 0,  # Attempts are counted here, the same way as in worker processes.
            "scheduling_strategy": "SPREAD" if is_repeated else "DEFAULT",  # Better on another node next time.
        }
        return function.options(**options).remote(job, ray.cloudpickle.dumps(task))


def _outcome(ray: ModuleType, reference: Any, task: WorkItem, attempts: Attempts) -> Outcome | None:
    """What became of a task that has ended; none if it is to be tried again."""
    try:
        message = ray.get(reference)
    except ray.exceptions.RayError as error:
        return attempts.died(task, _reason(ray, error))
    if isinstance(message, Unopened):
        raise message.failure.unpack("This happened while a worker of Ray's opened the context.")
    if isinstance(message, Broken):
        return attempts.raised(
            task, message.failure.unpack(f"This happened in task {task.key!r}, in a worker of Ray's.")
        )
    assert isinstance(message, Done)
    return message


def _reason(ray: ModuleType, error: Exception) -> str:
    """Why Ray has lost a task, in a few words; its own take a page."""
    names = ray.exceptions
    for kind, words in (
        (names.OutOfMemoryError, "its node ran out of memory"),
        (names.NodeDiedError, "its node died"),
        (names.WorkerCrashedError, "its process ended"),
        (names.ObjectStoreFullError, "the object store of its node is full"),
        (names.OutOfDiskError, "the disk of its node is full"),
        (names.ObjectLostError, "its data was lost with a node"),
    ):
        if isinstance(error, kind):
            return words
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _cancel(ray: ModuleType, running: dict[Any, WorkItem]) -> None:
    """End the processes of tasks that nobody waits for, and wait until they are gone."""
    with contextlib.suppress(Exception):  # The cluster itself may be gone.
        for reference in running:
            ray.cancel(reference, force=True)
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=_SECONDS_TO_CANCEL)


# -- pulses ------------------------------------------------------------------------------------------------------------


def _is_watched() -> bool:
    """Whether anybody sees a progress bar; the board of pulses costs a process."""
    return sys.stderr.isatty()


class _RayPulses:
    """Asks the board what is new, and never waits for its answer."""

    def __init__(self, ray: ModuleType, board: Any) -> None:
        self._ray = ray
        self._board = board
        self._asked: Any = None

    def take(self) -> list[tuple[str, float]]:
        """The tasks that have said something, and how far they are."""
        if self._board is None:
            return []
        try:
            if self._asked is None:
                self._asked = self._board.take.remote()
            if not self._ray.wait([self._asked], timeout=0)[0]:
                return []
            answer, self._asked = self._ray.get(self._asked), None
        except self._ray.exceptions.RayError:
            self._board = None  # It was on a node that died; the bar then moves with whole tasks only.
            return []
        return list(answer.items())
