"""How often a task may fail before it has failed: the same count wherever tasks run in workers."""

from __future__ import annotations

from ramet.errors import ConfigError, RunError
from ramet.execution.executor import Failed
from ramet.execution.tasks import WorkItem


class Attempts:
    """The failed attempts of the tasks of one run.

    A worker that dies and an exception count the same: memory, a disk or a device may be better next time and
    elsewhere. Only bad input is not tried again, because it will be as bad.

    Args:
        most: How often a task is begun.
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
