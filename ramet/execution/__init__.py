"""Where independent tasks run: in this process, in worker processes, later on a cluster; the same bits everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ramet.execution.executor import Done, Executor, Failed, Outcome
from ramet.execution.pulses import pulse
from ramet.execution.tasks import Task

if TYPE_CHECKING:
    from ramet.execution.inline import Inline
    from ramet.execution.processes import Processes

__all__ = [
    "Done",
    "Executor",
    "Failed",
    "Inline",
    "Outcome",
    "Processes",
    "Task",
    "make_executor",
    "pulse",
]


def make_executor(workers: int) -> Executor:
    """The executor for a number of workers: one works in this process, more are processes of their own.

    Raises:
        ConfigError: If the number is not a positive integer.
    """
    from ramet.execution.inline import Inline
    from ramet.execution.processes import Processes

    processes = Processes(workers)  # First, because it checks the number.
    return Inline() if workers == 1 else processes


def __getattr__(name: str) -> Any:
    # Both need torch, which `import ramet.execution` must not wait for.
    if name == "Inline":
        from ramet.execution.inline import Inline

        return Inline
    if name == "Processes":
        from ramet.execution.processes import Processes

        return Processes
    raise AttributeError(f"module 'ramet.execution' has no attribute {name!r}")
