"""A disk that fails at a moment of our choice, inside one process: a shim around what Python asks the system for.

Every write, rename, fsync, truncation, removal, listing and read below a folder is an operation, and operations are
counted. At the chosen one the system's error is raised, a write takes only half of what it was given, or the process
ends, as by a kill. What is done in other languages is not seen: SQLite's own files, and tensors read by safetensors.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("ENOSPC", "EIO", "short write", "end")
"""No room, a broken disk, a write that takes half of its bytes, and the end of the process."""

WRITES = ("write", "ftruncate", "fsync", "replace", "rename", "mkdir", "open to write")
"""Where a full disk is met; the rest can only fail as a broken one does."""


@dataclass
class FailingDisk:
    """The shim; once put in place it stays until the process ends, so put it into a forked one.

    Args:
        folder: below which operations count.
        at: the number of the operation that fails, from 0; none for counting alone.
        kind: one of ``KINDS``.
        lasts: whether all operations that come after it and write fail, too, as on a full disk.
    """

    folder: Path
    at: int | None = None
    kind: str = "EIO"
    lasts: bool = False
    seen: list[str] = field(default_factory=list)

    def put_in_place(self) -> None:
        """Wrap the functions of ``os`` and ``open``, which all of Python's own modules look up there."""
        for name in ("write", "ftruncate", "fsync"):
            setattr(os, name, self._of_descriptor(name, getattr(os, name)))
        for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "listdir", "scandir"):
            setattr(os, name, self._of_path(name, getattr(os, name)))
        os.open = self._opening(os.open)  # type: ignore[assignment]
        builtins.open = io.open = self._opening(io.open)  # type: ignore[assignment]

    def _of_descriptor(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(descriptor: Any, *rest: Any) -> Any:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            path = _path_of(number)
            if self._counts(path):
                if name == "write" and self._meets("write", path) == "short write":
                    return real(descriptor, memoryview(rest[0])[: max(1, len(rest[0]) // 2)])
                if name != "write":
                    self._meets(name, path)
            return real(descriptor, *rest)

        return wrapped

    def _of_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **options: Any) -> Any:
            path = given[0] if given else "."
            if options.get("dir_fd") is None and self._counts(path):
                self._meets(name, path)
            return real(*given, **options)

        return wrapped

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any, *given: Any, **options: Any) -> Any:
            if not self._counts(path):
                return real(path, *given, **options)
            how = given[0] if given else options.get("flags", options.get("mode", "r"))
            does_write = bool(how & (os.O_WRONLY | os.O_RDWR)) if isinstance(how, int) else set(how) & set("wax+")
            self._meets("open to write" if does_write else "open to read", path)
            opened = real(path, *given, **options)
            return opened if isinstance(how, int) or does_write else self._reading(opened, path)

        return wrapped

    def _reading(self, opened: Any, path: Any) -> Any:
        """A file that is open to read, on a raw one of which every read counts."""
        disk, text, real = self, isinstance(opened, io.TextIOWrapper), opened

        class Reading(io.FileIO):
            def readinto(self, buffer: Any, /) -> int | None:
                disk._meets("read", path)
                return super().readinto(buffer)

            def readall(self) -> bytes:
                disk._meets("read", path)
                return super().readall()

            def read(self, size: int | None = -1, /) -> bytes:
                disk._meets("read", path)
                return super().read(size)

        raw = Reading(os.dup(real.fileno()), "rb")
        wants_raw = isinstance(real, io.FileIO)
        encoding, errors = (real.encoding, real.errors) if text else (None, None)
        real.close()
        if wants_raw:
            return raw
        buffered = io.BufferedReader(raw)
        return io.TextIOWrapper(buffered, encoding, errors) if text else buffered

    def _counts(self, path: Any) -> bool:
        if isinstance(path, int) or path is None:
            return False
        text = os.path.abspath(os.fsdecode(path))
        return text == str(self.folder) or text.startswith(f"{self.folder}/")

    def _meets(self, operation: str, path: Any) -> str | None:
        """Count an operation; at the chosen one, fail."""
        number = len(self.seen)
        self.seen.append(f"{operation} {os.path.basename(os.fsdecode(path))}")
        is_now = number == self.at
        is_after = self.lasts and self.at is not None and number > self.at
        if not (is_now or (is_after and operation in WRITES)):
            return None
        if self.kind == "end":
            os._exit(137)
        if self.kind == "short write":
            return "short write"
        # Reading from a full disk works; a place of it that is broken does not.
        name = self.kind if operation in WRITES else "EIO"
        number = getattr(errno, name)
        raise OSError(number, os.strerror(number), os.fsdecode(path))


def _path_of(descriptor: int) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
