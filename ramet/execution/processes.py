"""Tasks in worker processes of this machine, one thread each."""

from __future__ import annotations

import contextlib
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch.multiprocessing

from ramet.errors import RunError
from ramet.execution.executor import Attempts, Done, Executor, Outcome
from ramet.execution.numerics import Numerics, check_number
from ramet.execution.sharing import SharedContext
from ramet.execution.socket_folder import use_own_folder
from ramet.execution.tasks import WorkItem
from ramet.execution.worker import Broken, Pulse, Ready, work

_SECONDS_BETWEEN_LOOKS = 1.0


class Processes(Executor):
    """Runs tasks in worker processes, of one thread each by default; expensive tasks start first.

    Each worker has a connection of its own, so the driver knows which task a dead worker had, and no lock is shared
    that a dying worker could take along. A worker holds one task, and a second one in advance while there are plenty. A
    task is begun ``attempts`` times before it counts as failed, whether its worker died or it raised.
    """

    def __init__(self, workers: int, *, attempts: int = 3, threads: int = 1) -> None:
        self.num_workers = check_number("workers", workers)
        self._num_attempts = check_number("attempts", attempts)
        self._threads = check_number("threads of a task", threads)

    def _stream(
        self, tasks: Sequence[WorkItem], context: object, on_pulse: Callable[[WorkItem, float], None]
    ) -> Generator[tuple[WorkItem, Outcome], None, None]:
        if not tasks:
            return
        waiting = deque(sorted(tasks, key=lambda task: -task.cost))
        attempts = Attempts(self._num_attempts)
        num_lost_starts = 0
        shared = SharedContext.of(context)
        numerics = Numerics.of_this_process()
        workers: list[_Worker] = []
        is_whole = False
        try:
            while waiting or any(worker.tasks for worker in workers):
                num_busy = sum(bool(worker.tasks) for worker in workers)
                while len(workers) < min(self.num_workers, len(waiting) + num_busy):
                    workers.append(_Worker(shared, numerics, self._threads))
                self._hand_out(waiting, workers)
                for worker in _with_news(workers):
                    message = worker.receive()
                    if isinstance(message, Ready):
                        num_lost_starts = 0
                        worker.is_ready = True
                    elif isinstance(message, Pulse):
                        on_pulse(worker.tasks[0], message.fraction)
                    elif isinstance(message, Done):
                        task = worker.tasks.popleft()
                        self._hand_out(waiting, workers)
                        yield task, message
                    elif isinstance(message, Broken):
                        if not worker.is_ready:
                            raise message.failure.unpack("This happened while a worker process opened the context.")
                        task = worker.tasks.popleft()
                        note = f"This happened in task {task.key!r}, in a worker process."
                        failed = attempts.raised(task, message.failure.unpack(note))
                        if failed is None:
                            waiting.appendleft(task)
                        else:
                            yield task, failed
                    else:
                        workers.remove(worker)
                        reason = worker.end()
                        if not worker.is_ready:
                            num_lost_starts += 1
                            self._check_starts(num_lost_starts, reason)
                        elif worker.tasks:
                            task = worker.tasks.popleft()
                            waiting.extendleft(worker.tasks)  # These had not begun, so they lose no attempt.
                            failed = attempts.died(task, reason)
                            if failed is None:
                                waiting.appendleft(task)
                            else:
                                yield task, failed
            is_whole = True
        finally:
            for worker in workers:
                worker.dismiss() if is_whole else worker.kill()
            for worker in workers:
                worker.end()

    def _hand_out(self, waiting: deque[WorkItem], workers: list[_Worker]) -> None:
        """Give each idle worker a task, and each busy one its next while that leaves enough for the others."""
        for worker in workers:
            if waiting and worker.is_ready and not worker.tasks:
                worker.give(waiting.popleft())
        for worker in workers:
            if len(waiting) > self.num_workers and worker.is_ready and len(worker.tasks) == 1:
                worker.give(waiting.popleft())

    def _check_starts(self, num_lost: int, reason: str) -> None:
        if num_lost < self._num_attempts:
            return
        # Whoever sends a signal is no script: the system where memory ends, a scheduler, or a person.
        hint = (
            "the system does that where memory ends"
            if reason.startswith("killed")
            else "a script that uses workers needs `if __name__ == '__main__':` around what it runs"
        )
        raise RunError(f"worker processes must be able to start, but {num_lost} were lost at once ({reason}); {hint}.")


class _Worker:
    """The driver's side of one worker process."""

    def __init__(self, shared: SharedContext, numerics: Numerics, threads: int) -> None:
        # Not spawn, because torch takes seconds to import: a server that has imported it forks each worker. The server
        # itself starts from nothing, so no thread and no lock of the driver comes along.
        server = torch.multiprocessing.get_context("forkserver")
        server.set_forkserver_preload(["ramet.execution.preload"])
        use_own_folder()
        self.connection, theirs = server.Pipe()
        self.tasks: deque[WorkItem] = deque()
        self.is_ready = False
        self._process: ForkServerProcess = server.Process(
            target=work, args=(theirs, shared, numerics, threads), name="ramet-worker", daemon=True
        )
        resource_tracker.ensure_running()  # Its own start would undo the block below.
        with _without_interrupts():
            self._process.start()
        theirs.close()  # So that the end of the worker is the end of the connection.

    def give(self, task: WorkItem) -> None:
        self.tasks.append(task)
        with contextlib.suppress(OSError):  # It has died; the next look at it says so.
            self.connection.send_bytes(bytes(ForkingPickler.dumps(task)))

    def receive(self) -> Any:
        """The next message, or None if the worker has died."""
        try:
            if self.connection.poll():
                return self.connection.recv()
        except (EOFError, OSError):
            return None
        return None

    def is_dead(self) -> bool:
        return not self._process.is_alive()

    def dismiss(self) -> None:
        self.connection.close()

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> str:
        """Make sure that the process is gone, and say how it went."""
        self._process.join(timeout=5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        self.connection.close()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


def _with_news(workers: list[_Worker]) -> Iterator[_Worker]:
    """Wait until some workers have sent something or died, and give these."""
    ready = wait([worker.connection for worker in workers], timeout=_SECONDS_BETWEEN_LOOKS)
    news = [worker for worker in workers if worker.connection in ready]
    if not news:
        # A process that a task has forked may hold the connection open after its worker has died.
        news = [worker for worker in workers if worker.is_dead()]
    return iter(news)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start a process that ignores Ctrl-C from its first moment, also while Python is still starting in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
