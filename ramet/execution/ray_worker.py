"""What runs on a Ray cluster: a task in a worker of Ray's, and the board where running tasks say how far they are."""

from __future__ import annotations

import os
import pickle
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ramet.errors import ConfigError
from ramet.execution.failures import Failure, as_failure
from ramet.execution.tasks import WorkItem, listening

_SECONDS_BETWEEN_PULSES = 0.5


@dataclass(frozen=True)
class RayJob:
    """What all tasks of one run share.

    Args:
        context: The reference of the context in the object store; in a list, because Ray would otherwise fetch it anew
            for each task.
        folder: The driver's working folder, so that relative paths mean the same in every worker.
        versions: Of the libraries on which the bits of a result depend.
        board: The actor that pulses go to, if anybody watches.
    """

    context: list[Any]
    numerics: Any
    threads: int
    folder: str
    path: list[str]
    versions: dict[str, str]
    board: Any = None


@dataclass(frozen=True)
class Unopened:
    """The worker could not be made ready for the tasks of the run, so no other would be."""

    failure: Failure


def versions() -> dict[str, str]:
    """The versions that driver and workers must have in common for results to be the same bits."""
    import numpy
    import torch

    import ramet

    return {"ramet": ramet.__version__, "torch": str(torch.__version__), "numpy": numpy.__version__}


def run_task(job: RayJob, message: bytes) -> Any:
    """Run a pickled task in a worker of Ray's; gives ``Done``, ``Broken`` or ``Unopened``, raises Ray's own errors."""
    from ray.exceptions import RayError

    from ramet.execution.executor import Done
    from ramet.execution.numerics import settled
    from ramet.execution.worker import Broken

    try:
        context = _open(job)
    except RayError:  # The node that held the context is gone, or this one is full.
        raise
    except Exception as error:
        return Unopened(Failure.of(error))
    try:
        task: WorkItem = pickle.loads(message)  # nosec B301
        with settled(task.key, job.threads), listening(partial(_Sender(job.board).send, task.key)):
            return Done(task.call(context))
    except KeyboardInterrupt:  # by which Ray cancels a task
        raise
    except BaseException as error:
        return Broken(Failure.of(as_failure(error)))


_opened: tuple[str, Any] | None = None  # Workers outlive tasks; the context of the last run is kept ready.


def _open(job: RayJob) -> Any:
    """The context of the run, and the settings of the driver with it; once a worker."""
    global _opened
    reference = job.context[0]
    if _opened is None or _opened[0] != reference.hex():
        import ray
        import torch

        _opened = None
        _check_node(job)
        os.chdir(job.folder)
        sys.path += [place for place in job.path if place not in sys.path]
        torch.set_num_threads(job.threads)
        job.numerics.apply()
        _opened = (reference.hex(), ray.get(reference).open())
    return _opened[1]


def _check_node(job: RayJob) -> None:
    for name, version in versions().items():
        if version != job.versions[name]:
            raise ConfigError(
                f"every node of a Ray cluster must have {name} {job.versions[name]} as the driver has, but one has "
                f"{version}."
            )
    if not Path(job.folder).is_dir():
        raise ConfigError(f"every node of a Ray cluster must see the driver's folder, but one has no {job.folder}.")


class _Sender:
    """Sends the pulses of one task, but not often, and without waiting for an answer."""

    def __init__(self, board: Any) -> None:
        self._board = board
        self._sent_at = 0.0

    def send(self, key: str, fraction: float) -> None:
        now = time.monotonic()
        if self._board is not None and now - self._sent_at >= _SECONDS_BETWEEN_PULSES:
            self._board.note.remote(key, fraction)
            self._sent_at = now


class Board:
    """The last pulse of each running task; an actor, to which workers write and from which the driver takes."""

    def __init__(self) -> None:
        self._fractions: dict[str, float] = {}

    def note(self, key: str, fraction: float) -> None:
        """A running task is this far."""
        self._fractions[key] = fraction

    def take(self) -> dict[str, float]:
        """What is new since the last call."""
        fractions, self._fractions = self._fractions, {}
        return fractions
