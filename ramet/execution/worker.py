"""What runs inside a worker process: tasks come in, outcomes and pulses go out, and no driver means no worker."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import signal
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from ramet.execution.executor import Done
from ramet.execution.failures import Failure, as_failure
from ramet.execution.numerics import Numerics, settled
from ramet.execution.sharing import SharedContext
from ramet.execution.tasks import WorkItem, listening

_SECONDS_BETWEEN_PULSES = 0.1


@dataclass(frozen=True)
class Ready:
    """The worker has its context and waits for tasks."""


@dataclass(frozen=True)
class Pulse:
    """The running task is this far."""

    fraction: float


@dataclass(frozen=True)
class Broken:
    """The running task, or the start of the worker, has raised."""

    failure: Failure


def work(connection: Connection, context: SharedContext, numerics: Numerics, threads: int) -> NoReturn:
    """Run tasks until the driver closes the connection, on purpose or by dying."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the driver decides.
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    try:
        import torch

        torch.set_num_threads(threads)
        numerics.apply()
        opened = context.open()
    except Exception as error:
        _tell(connection, Broken(Failure.of(error)))
        while True:
            inbox.get()
    _tell(connection, Ready())
    pulses = _Pulses(connection)
    while True:
        _tell(connection, _run(inbox.get(), opened, threads, pulses))


def _tell(connection: Connection, message: Ready | Done | Broken) -> None:
    try:
        connection.send(message)
    except OSError:
        _leave()  # The driver is gone, or was done before this worker was ready.


def _receive(connection: Connection, inbox: queue.SimpleQueue[bytes]) -> NoReturn:
    """Empty the connection at once, so that the driver never waits for a busy worker, and end with the driver."""
    try:
        while True:
            inbox.put(connection.recv_bytes())
    except (EOFError, OSError):
        _leave()


def _leave() -> NoReturn:
    """End this process, in the middle of a task too: whatever it still does, nobody waits for."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _run(message: bytes, context: Any, threads: int, pulses: _Pulses) -> Done | Broken:
    try:
        task: WorkItem = pickle.loads(message)  # nosec B301
        with settled(task.key, threads), listening(pulses.send):
            return Done(task.call(context))
    except BaseException as error:  # no Ctrl-C, which is ignored here
        return Broken(Failure.of(as_failure(error)))


class _Pulses:
    """Sends pulses, but neither often nor at the price of waiting: a lost pulse costs nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sent_at = 0.0

    def send(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._sent_at < _SECONDS_BETWEEN_PULSES:
            return
        _, writable, _ = select.select([], [self._connection], [], 0)
        if writable:
            self._connection.send(Pulse(fraction))
            self._sent_at = now
