"""Where independent tasks run: in this process, in worker processes or on a Ray cluster; the same bits everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.errors import ConfigError
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.execution.executor import Done, Executor, Failed, Outcome
    from ramet.execution.inline import Inline
    from ramet.execution.processes import Processes
    from ramet.execution.ray_executor import Ray
    from ramet.execution.tasks import WorkItem, pulse

__getattr__ = lazy_front(__name__)

__all__ = ["EXECUTORS", "Done", "Executor", "Failed", "Inline", "Outcome", "Processes", "Ray", "WorkItem"]
__all__ += ["make_executor", "pulse"]


EXECUTORS = ("inline", "processes", "ray")
"""The kinds of executor that there are."""


def make_executor(
    workers: int,
    kind: str | None = None,
    *,
    ray_address: str | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
) -> Executor:
    """The executor for a number of workers: one works in this process, more are processes of their own.

    Results do not depend on it, so a run that began with one executor can go on with another.

    Args:
        workers: How many tasks run at the same time.
        kind: One of ``EXECUTORS``, where the number of workers shall not decide.
        ray_address: Of an existing Ray cluster; for the kind ray only, as are the others below.
        cpus: What a task asks Ray for, by default 1.
        gpus: The same of GPUs, by default 0.

    Raises:
        ConfigError: If the number is not a positive integer, or the options do not fit each other.
    """
    from ramet.execution.inline import Inline
    from ramet.execution.processes import Processes

    processes = Processes(workers)  # First, because it checks the number.
    for_ray = {"address": ray_address, "cpus": cpus, "gpus": gpus}
    asked = {name: value for name, value in for_ray.items() if value is not None}
    if kind not in (None, *EXECUTORS):
        raise ConfigError(f"the executor must be one of {', '.join(EXECUTORS)}, but got {kind!r}.")
    if kind == "ray":
        from ramet.execution.ray_executor import Ray

        return Ray(workers, **asked)  # type: ignore[arg-type]
    if asked:
        raise ConfigError(f"the options of Ray need the executor ray, but it is {kind or 'not given'}.")
    if kind == "inline" and workers != 1:
        raise ConfigError(f"the executor inline has one worker, but got {workers}.")
    return Inline() if kind == "inline" or (kind is None and workers == 1) else processes
