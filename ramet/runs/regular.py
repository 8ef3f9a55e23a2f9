"""Files that may come from somebody else: only regular ones are opened, and none that the machine cannot hold."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path


def machine_memory() -> int | None:
    """The bytes of memory that the machine has; none where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what is there and is neither a file nor a folder: a pipe has no beginning, and a device no end.

    Archives hold pipes and links as well as files, so that a folder which somebody sent may have one in the place of
    any of its files.

    Raises:
        OSError: It is something else, or larger than half of the machine's memory.
    """
    try:
        found = os.stat(path)
    except OSError:
        return  # whoever opens it will say why that is not possible
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    memory = machine_memory()
    if memory is not None and found.st_size > memory / 2:
        raise OSError(errno.EFBIG, "it is larger than half of this machine's memory", str(path))


def open_regular(path: Path) -> io.FileIO:
    """A regular file, open to be read without a buffer.

    Raises:
        OSError: It cannot be read, or is no such file.
    """
    check_regular(path)
    return open(path, "rb", buffering=0)


def read_regular(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: It cannot be read, or is no such file.
    """
    check_regular(path)
    return path.read_bytes()
