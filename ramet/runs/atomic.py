"""Files that are either whole or absent, whenever the process or the machine stops."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ramet.errors import DiskError

_SUFFIX = ".ramet-tmp"
_SECONDS_BEFORE_REMOVED = 3600.0


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the disk inside the block into one line, a ``DiskError``: what was not written, and why."""
    try:
        yield
    except OSError as error:
        raise DiskError(f"cannot write {path}: {error.strerror or error}.") from error


def write_atomically(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file under a temporary name, and give it its own once it is safely on the disk; a failure leaves none.

    What is too large to be in memory as a whole can be given in pieces.
    """
    temporary = _nameless(path)
    with writing(path):
        try:
            with open(temporary, "wb", buffering=0) as file:
                for piece in (data,) if isinstance(data, bytes) else data:
                    write_all(file.fileno(), piece)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
        _remove_left(path)


def _remove_left(path: Path) -> None:
    """Remove what earlier writes of the same file left when they were killed: their processes are gone, and it is old.

    It must be old because on a disk that machines share the process may live on another one.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_SUFFIX}"):
        number = left.name.removesuffix(_SUFFIX).rpartition(".")[2]
        with contextlib.suppress(OSError, ValueError):
            if time.time() - left.stat().st_mtime > _SECONDS_BEFORE_REMOVED and not lives(int(number)):
                left.unlink()


def lives(number: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return True


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when the block ends; a failure leaves none.

    Whoever fills it holds a lock, so that what others left there are those of killed processes, and are removed. The
    files are on the disk when the block ends: each is synced by its writer.
    """
    temporary = _nameless(folder)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*{_SUFFIX}"):
        number = left.name.removesuffix(_SUFFIX).rpartition(".")[2]
        if left == temporary or not (number.isdecimal() and lives(int(number))):
            shutil.rmtree(left, ignore_errors=True)
    with writing(folder):
        temporary.mkdir()
    try:
        yield temporary
        with writing(folder):
            sync_folder(temporary)
            os.rename(temporary, folder)
            sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _nameless(path: Path) -> Path:
    """What a file or a folder is called while it is not whole."""
    return path.with_name(f".{path.name}.{os.getpid()}{_SUFFIX}")


def remove_folder(folder: Path) -> None:
    """Remove a folder that is either whole or absent: it loses its name first, and its content after that.

    What earlier removals of the same folder left when they were killed goes with it.
    """
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*{_SUFFIX}"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
    nameless = _nameless(folder)
    with writing(folder):
        os.rename(folder, nameless)
    shutil.rmtree(nameless, ignore_errors=True)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
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
