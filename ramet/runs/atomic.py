"""Files that are either whole or absent, whenever the process or the machine stops."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from ramet.errors import RunError

_SUFFIX = ".ramet-tmp"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the disk inside the block into one line, a ``RunError``: what could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}.") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, and give it its own once it is safely on the disk; a failure leaves none."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_SUFFIX}")
    with writing(path):
        try:
            with open(temporary, "wb", buffering=0) as file:
                write_all(file.fileno(), data)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; one call of ``os.write`` may take only some of them."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, as ``fsync`` of a file makes its content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not know fsync of a folder; they have nothing better to offer.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """Whether a file name is one that an interrupted ``write_atomically`` left behind."""
    return name.startswith(".") and name.endswith(_SUFFIX)
