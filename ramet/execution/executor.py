"""The seam behind which tasks run: what every executor promises, and what one has to provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from ramet.errors import ConfigError, RunError, text_of
from ramet.execution.tasks import WorkItem
from ramet.progress import progress


@dataclass(frozen=True)
class Done:
    """A task's result."""

    value: Any


@dataclass(frozen=True)
class Failed:
    """Why a task has no result, after all the attempts it had."""

    error: BaseException


Outcome: TypeAlias = Done | Failed
"""What became of a work item."""

_NUM_FIRST_FAILURES = 3


class Executor(ABC):
    """Runs independent tasks, ``num_workers`` at the same time, and gives their results as they arrive.

    What holds for every executor, and what ``ramet.testing.executors`` checks:

    - Results are the same bits whichever executor ran the tasks: each task runs with the same number of threads, with
      torch's, NumPy's and Python's global generators seeded from its key, and with gradients enabled.
    - Every task gives exactly one result; results come in any order, as soon as they are there.
    - The context reaches each worker once, and no more tasks are under way than workers can soon begin.
    - A worker that dies is replaced and its task run again, and so is a task that raises; a task whose last attempt
      fails is told to ``on_failure``, the others go on, and the failure is raised when they are done.
    - Closing the iterator ends all work at once and leaves no process behind.

    A new executor provides ``_stream``.
    """

    num_workers: int = 1

    @final
    def run(
        self,
        tasks: Sequence[WorkItem],
        context: object = None,
        *,
        label: str = "running tasks",
        on_failure: Callable[[str, BaseException], object] | None = None,
    ) -> Iterator[tuple[WorkItem, Any]]:
        """Run all tasks. Work is done while the iterator is being iterated; close it to stop.

        Args:
            tasks: What to run; keys are unique.
            context: What every task is given first, such as the data. It must pickle, and no task may change it.
            label: What the progress bar says; an empty label shows no bar.
            on_failure: Called with the key of a task that has failed for good, and why.

        Raises:
            ConfigError: If two tasks have one key, before anything runs; or what a task raised for bad input, at once.
            RunError: If the workers of a task died in each of its attempts, or several tasks failed.
            Exception: What the only task that failed has raised, of the type it had there; a worker's traceback is the
                cause. Failures are raised when all other tasks are done, or at once if the first tasks all fail.
        """
        keys: set[str] = set()
        for task in tasks:
            if task.key in keys:
                raise ConfigError(f"tasks that run together must have different keys, but {task.key!r} occurs twice.")
            keys.add(task.key)
        return self._run(tasks, context, label, on_failure)

    def _run(
        self,
        tasks: Sequence[WorkItem],
        context: object,
        label: str,
        on_failure: Callable[[str, BaseException], object] | None,
    ) -> Iterator[tuple[WorkItem, Any]]:
        failures: dict[str, BaseException] = {}
        is_any_done = False
        done = 0.0
        running: dict[str, float] = {}
        with progress(label, total=sum(task.cost for task in tasks)) as bar:

            def on_pulse(task: WorkItem, fraction: float) -> None:
                running[task.key] = fraction * task.cost
                bar.set(done + sum(running.values()))

            with closing(self._stream(tasks, context, on_pulse)) as stream:
                for task, outcome in stream:
                    running.pop(task.key, None)
                    done += task.cost
                    bar.set(done + sum(running.values()))
                    if isinstance(outcome, Done):
                        is_any_done = True
                        yield task, outcome.value
                        continue
                    failures[task.key] = outcome.error
                    if on_failure is not None:
                        on_failure(task.key, outcome.error)
                    if isinstance(outcome.error, ConfigError):
                        raise outcome.error
                    if not is_any_done and len(failures) >= _NUM_FIRST_FAILURES:
                        break  # Whatever is wrong, it is not the task.
        if failures:
            raise _summary(failures, len(tasks))

    @abstractmethod
    def _stream(
        self, tasks: Sequence[WorkItem], context: object, on_pulse: Callable[[WorkItem, float], None]
    ) -> Generator[tuple[WorkItem, Outcome], None, None]:
        """Yield each task once with its outcome; ``on_pulse`` hears what tasks say, in the thread that iterates."""


def _summary(failures: dict[str, BaseException], num_tasks: int) -> BaseException:
    """What ends a run in which some tasks have failed."""
    key, first = next(iter(failures.items()))
    if len(failures) == 1:
        return first
    reason = " ".join(text_of(first).split()) or type(first).__name__
    error = RunError(f"all {num_tasks} tasks must finish, but {len(failures)} failed; the first, {key!r}: {reason}")
    error.__cause__ = first
    return error


class Attempts:
    """The failed attempts of the tasks of one run, each of which is begun ``most`` times.

    A worker that dies and an exception count the same: memory, a disk or a device may be better next time and
    elsewhere. Only bad input is not tried again, because it will be as bad.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._failed: dict[str, int] = {}

    def of(self, task: WorkItem) -> int:
        """How many attempts of a task have failed."""
        return self._failed.get(task.key, 0)

    def died(self, task: WorkItem, reason: str) -> Failed | None:
        """The worker of a task is gone; gives the failure if that was the last attempt."""
        if self._count(task) < self._most:
            return None
        hint = "; is there enough memory?" if "SIGKILL" in reason or "memory" in reason else ""
        return Failed(
            RunError(f"a task must finish, but the worker of {task.key!r} died {self._most} times ({reason}){hint}")
        )

    def raised(self, task: WorkItem, error: BaseException) -> Failed | None:
        """A task has raised; gives the failure if that was the last attempt, or no other can be better."""
        if isinstance(error, ConfigError) or self._count(task) >= self._most:
            return Failed(error)
        return None

    def _count(self, task: WorkItem) -> int:
        self._failed[task.key] = self.of(task) + 1
        return self._failed[task.key]
