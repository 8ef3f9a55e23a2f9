"""An exception on its way from a worker to the driver."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

from ramet.errors import RametError, RunError, text_of, told


class WorkerTraceback(Exception):  # noqa: N818 (it is the text of a traceback, not an error of its own)
    """Where in a worker an exception was raised; the cause of the exception that the driver raises again."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Failure:
    """What is left of an exception after it has left its process."""

    data: bytes
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Pack an exception; one that does not survive pickling is replaced by one that says the same."""
        trace = "".join(traceback.format_exception(error))
        bare = error.with_traceback(None)
        try:
            data = pickle.dumps(bare)
            if type(pickle.loads(data)) is not type(bare):  # nosec B301
                raise TypeError
        except Exception:
            data = pickle.dumps(_replacement(error))
        return cls(data, trace)

    def unpack(self, note: str) -> BaseException:
        """The exception, ready to be raised in the driver, with the worker's traceback as its cause and a note."""
        try:
            error: BaseException = pickle.loads(self.data)  # nosec B301
        except Exception:  # Its class can be imported in the worker only.
            error = RunError(self.trace.strip().splitlines()[-1])
        error.__cause__ = WorkerTraceback(self.trace)
        error.add_note(note)
        return error


ENDS = (SystemExit, GeneratorExit)
"""What ends a program or a loop, and must not end a run: code of the user's may raise it. Ctrl-C does end one."""


def as_failure(error: BaseException) -> Exception:
    """An error of a task as one that ends the task alone: ``sys.exit`` in a user's code ends no driver, no worker."""
    if isinstance(error, Exception):
        return error
    ended = RunError(f"a task must give a result, but ended in {told(error)}.")
    ended.__cause__ = error
    return ended


def _replacement(error: BaseException) -> Exception:
    """The nearest of our own errors with the same message: an exit code must not depend on the number of workers."""
    for kind in type(error).__mro__:
        if issubclass(kind, RametError):
            try:
                candidate = kind(text_of(error))
                pickle.loads(pickle.dumps(candidate))  # nosec B301
            except Exception:
                continue
            return candidate
    return RunError(told(error))
