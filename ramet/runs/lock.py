"""One writer for each run directory, by a lock that dies with its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ramet.errors import RunError
from ramet.runs.atomic import lives, writing

_SHARED_MEMORY = Path("/dev/shm")  # nosec B108: nothing is written there


class RunLock:
    """The exclusive lock of one run directory, held from construction to ``release``.

    The kernel drops an ``flock`` when its process ends, however it ends, so a killed run never blocks its own
    resumption. The file stays behind on purpose: deleting it would let two processes lock two files of one name. It
    holds the process id of the last owner, for the message.

    A directory that is overwritten takes its lock with it. Whoever had opened that file by then would hold a lock that
    nobody else meets, so the file that is locked is compared with the one that has the name.

    Spawned processes do not inherit the descriptor (Python opens files close-on-exec). Forked ones do, and would keep
    the lock after their parent is gone, so they close it at once.
    """

    def __init__(self, path: Path) -> None:
        self._file = _locked(path)
        self._file.seek(0)
        _remove_shared_memory(self._file.read().strip())
        with contextlib.suppress(OSError):  # A full disk: what the run itself writes says so, and better.
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"{os.getpid()}\n".encode())
        _held.add(self)

    def release(self) -> None:
        """Let another process have the run; twice is the same as once."""
        self._file.close()


def _locked(path: Path) -> IO[str]:
    """The file of that name, locked; none that lost its name between opening and locking."""
    while True:
        with writing(path):
            file = open(path, "a+", encoding="ascii")  # noqa: SIM115 (held until release)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read().strip()
            file.close()
            who = f"process {owner}" if owner else "another process"
            raise RunError(
                f"a run directory has one writer at a time, but {path.parent} is in use by {who}."
            ) from error
        except OSError as error:
            file.close()
            raise RunError(f"cannot lock {path}: {error.strerror or error}.") from error
        if _has_the_name(file, path):
            return file
        file.close()


def _remove_shared_memory(owner: str) -> None:
    """Remove what an owner that was killed left of torch's shared memory, whose files bear the number of their process.

    torch takes the name away as soon as it has the memory; a kill between the two leaves the file until the machine is
    started anew.
    """
    if owner.isascii() and owner.isdigit() and not lives(int(owner)):
        for path in _SHARED_MEMORY.glob(f"torch_{owner}_*"):
            with contextlib.suppress(OSError):
                if path.stat().st_uid == os.getuid():
                    path.unlink()


def _has_the_name(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _forget_in_forked_child() -> None:
    for lock in list(_held):
        lock.release()  # Closing a copy of the descriptor leaves the parent's lock in place.


os.register_at_fork(after_in_child=_forget_in_forked_child)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Wait for, and hold, a lock on a folder that exists.

    Two writers meet in a checkpoint folder only for a moment: when a run is resumed while the workers of the killed
    driver are still ending. Both write the same bits; the lock keeps one from sweeping away the other's unfinished
    file.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # A file system without locks on folders: the overlap is then unguarded.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process that was forked meanwhile would hold it on
        os.close(descriptor)
