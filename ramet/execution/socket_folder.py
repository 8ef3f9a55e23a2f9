"""Where the socket of the server lies that forks workers: a folder that goes even if its process was killed.

Python makes a folder ``pymp-...`` for it, and removes it when the process ends by itself. After a kill it stays for
ever. Here the folder is locked by its process, so that the next one can tell, and remove, those that nobody holds.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from multiprocessing import process
from pathlib import Path

_PREFIX = "ramet-workers-"
_SECONDS_BEFORE_SWEPT = 60.0  # between making a folder and locking it

_held: dict[int, int] = {}
"""For this process, the descriptor that holds the lock of its folder; a forked one has none."""


def use_own_folder() -> None:
    """Let ``multiprocessing`` put its sockets into a folder of ours; once for a process."""
    config = getattr(process.current_process(), "_config", None)
    if os.getpid() in _held or config is None or config.get("tempdir") is not None:
        return  # a later Python, or somebody has begun already: theirs
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _held[os.getpid()] = _locked(folder)
    config["tempdir"] = str(folder)
    atexit.register(_remove, folder, os.getpid())


def sweep(place: Path) -> None:
    """Remove the folders of this user there that no process holds any more."""
    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            about = folder.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _SECONDS_BEFORE_SWEPT:
                continue
            os.close(_locked(folder))  # refused while its process lives
            shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
