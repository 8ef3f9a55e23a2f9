"""When one rank ends, all end, and one of them says so in one line.

A rank that waits for a dead one hears of it in two ways, and either may come first: the connection closes, so that the
collective raises, or torchrun sends SIGTERM. The second must also be heard by a rank that is blocked inside a
collective, where Python runs no signal handlers; so a thread listens.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from torch import distributed
from torch._C._distributed_c10d import Store

from ramet.errors import LostRankError, RametError, text_of

LINE = "a rank of this job has ended before the others, so the job ends; `ramet resume DIR` goes on from the last save."
_SECONDS_TO_SPEAK = 1.0
_STORE_TIMEOUT = timedelta(seconds=5)


class Voice:
    """Who may speak: of all ranks, only the first that asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_ours = False
        self.lock = threading.Lock()

    def claim(self) -> bool:
        """Whether this rank, in this thread, is the first to ask."""
        with self.lock:
            return self._claim()

    def _claim(self) -> bool:
        try:
            self._store.set_timeout(_STORE_TIMEOUT)
            self._is_ours = bool(self._store.add("ramet/ended", 1) == 1)
        except RuntimeError:  # the machine of the store is gone, and who knows what was said there
            self._is_ours = True
        return self._is_ours

    def end(self) -> None:
        """End this process, with the line if nobody has said it; nothing if the main thread is about to speak."""
        with self.lock:
            if self._is_ours:
                return
            if self._claim():
                with contextlib.suppress(OSError):
                    os.write(sys.stderr.fileno(), f"ramet: {LINE}\n".encode())
            os._exit(1)  # the main thread may be blocked for good; what is on the disk is whole at any moment


@contextmanager
def ending_together(store: Store, *, is_leader: bool) -> Iterator[None]:
    """A block that the loss of another rank ends; ``store`` is what the ranks met by, the leader tells common errors.

    The first to notice raises ``LostRankError``; the others exit with code 1, silent.
    """
    voice = Voice(store)
    with _ended_by_a_signal(voice):
        try:
            yield
        except (RametError, KeyboardInterrupt):
            # Every rank has raised this, and the leader tells it. The others stay until it has, because the first that
            # goes makes torchrun end the rest.
            if is_leader:
                voice.claim()
            else:
                time.sleep(_SECONDS_TO_SPEAK)
            raise
        except RuntimeError as error:
            if not _is_loss(error):
                raise
            if voice.claim():
                raise LostRankError(LINE) from error
            sys.exit(1)


def _is_loss(error: RuntimeError) -> bool:
    """Whether an error is of the connection to other ranks; gloo raises a plain RuntimeError."""
    text = text_of(error)
    return isinstance(error, distributed.DistError) or "gloo" in text.lower() or "NCCL" in text


@contextmanager
def _ended_by_a_signal(voice: Voice) -> Iterator[None]:
    """A block in which SIGTERM ends the process with the line, also inside a collective."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while number := os.read(reading, 1):
            if number[0] == signal.SIGTERM:
                voice.end()

    handler = signal.signal(signal.SIGTERM, lambda number, frame: None)  # the thread acts; the default would kill
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield
    # Not after an error: then SIGTERM stays without effect, for it must not come before the line about the error.
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, handler)
    os.close(writing)
    thread.join()
    os.close(reading)
