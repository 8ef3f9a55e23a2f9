"""Tasks one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

from ramet.execution.executor import Done, Executor, Failed, Outcome
from ramet.execution.numerics import check_threads, settled
from ramet.execution.pulses import listening
from ramet.execution.tasks import WorkItem


class Inline(Executor):
    """Runs each task in the caller's process when its result is asked for, in the given order.

    Args:
        threads: The number of threads that torch may use in a task. One by default, because worker processes have one
            and sums depend on it; the caller's number is back between tasks.

    Raises:
        ConfigError: If the number of threads is not positive.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = check_threads(threads)

    def _stream(
        self, tasks: Sequence[WorkItem], context: object, on_pulse: Callable[[WorkItem, float], None]
    ) -> Generator[tuple[WorkItem, Outcome], None, None]:
        for task in tasks:
            outcome: Outcome
            try:
                with settled(task.key, self._threads), listening(partial(on_pulse, task)):
                    outcome = Done(task.call(context))
            except Exception as error:
                error.add_note(f"This happened in task {task.key!r}.")
                outcome = Failed(error)
            yield task, outcome
