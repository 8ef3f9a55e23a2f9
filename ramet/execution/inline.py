"""Tasks one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

from ramet.execution.executor import Done, Executor, Failed, Outcome
from ramet.execution.failures import ENDS, as_failure
from ramet.execution.numerics import check_number, settled
from ramet.execution.tasks import WorkItem, listening


class Inline(Executor):
    """Runs each task in the caller's process when its result is asked for, in the given order.

    Torch has one thread in a task by default, because worker processes have one and sums depend on it; the caller's
    number is back between tasks.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = check_number("threads of a task", threads)

    def _stream(
        self, tasks: Sequence[WorkItem], context: object, on_pulse: Callable[[WorkItem, float], None]
    ) -> Generator[tuple[WorkItem, Outcome], None, None]:
        for task in tasks:
            outcome: Outcome
            try:
                with settled(task.key, self._threads), listening(partial(on_pulse, task)):
                    outcome = Done(task.call(context))
            except (Exception, *ENDS) as error:
                failure = as_failure(error)
                failure.add_note(f"This happened in task {task.key!r}.")
                outcome = Failed(failure)
            yield task, outcome
