"""The events of a run: an append-only file with one JSON object a line, written by the driver alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ramet.errors import ConfigError, DiskError, RunError
from ramet.runs.atomic import write_all, writing
from ramet.runs.encoding import JSON, decode, encode
from ramet.runs.regular import read_regular

_SECONDS_BETWEEN_SYNCS = 1.0
_SUM = "$sha256"
_NUM_DIGITS = 16
_SUM_AT_THE_END = re.compile(rf',"\{_SUM}":"[0-9a-f]{{{_NUM_DIGITS}}}"}}$')
_SUM_LENGTH = len(f',"{_SUM}":"{"0" * _NUM_DIGITS}"}}')


class Records:
    """The records of one run, by key and in the order of the file.

    Every line is handed to the operating system before ``append`` returns, so a killed process loses nothing; it is
    forced to the disk at most once a second, and before every checkpoint of the same run, so a power cut loses at most
    what the resumed run writes again.

    Args:
        path: The file; made if it is missing. A last line without its end, left by a kill in the middle of a write, is
            cut off.
        checked: Whether each line ends with a checksum of the rest of it. Runs of the first format have none.

    Raises:
        RunError: If a whole line is damaged or repeats a key (the line is named), or the disk refuses.
    """

    def __init__(self, path: Path, *, checked: bool = True) -> None:
        self._path = path
        self._checked = checked
        self._observers: list[Callable[[dict[str, Any]], None]] = []
        self._synced_at = time.monotonic()
        with writing(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            content = _read(path)
            whole = content[: content.rfind(b"\n") + 1]
            self._lines = _index(path, whole, checked)
            if len(whole) < len(content):
                with writing(path):
                    os.ftruncate(self._descriptor, len(whole))
        except BaseException:
            self.close()
            raise

    def append(self, key: str, /, **fields: JSON) -> bool:
        """Write a record, unless the same one is there already.

        A resumed run writes again what it wrote before it was killed. The same key with the same fields is skipped;
        with other fields it is refused, because a resumed run has to repeat itself bit for bit. Measured times
        therefore do not belong into a record that may be written twice.

        Args:
            key: The name of the event, unique in the run, such as ``"instance/0/epoch/3"``.
            **fields: What happened; JSON, where NaN and infinities are allowed.

        Returns:
            Whether the record is new.

        Raises:
            RunError: If the key has a record with other fields, or the disk refuses; the file is then as before.
            TypeError: If a field is not JSON.
        """
        if not isinstance(key, str) or not key:
            raise TypeError(f"the key of a record must be a string that is not empty, but got {key!r}.")
        if taken := {"key", _SUM} & set(fields):
            raise TypeError(f"a record's field must not be called {min(taken)!r}, but the one of {key!r} is.")
        line = encode({"key": key, **fields}, where=f"record {key!r}")
        if key in self._lines:
            self._check_same(key, line)
            return False
        self._write((_with_sum(line) if self._checked else line).encode() + b"\n")
        self._lines[key] = line
        for observer in self._observers:
            observer(decode(line))
        return True

    def sync(self) -> None:
        """Force what was appended to the disk."""
        with writing(self._path):
            os.fsync(self._descriptor)
        self._synced_at = time.monotonic()

    def observe(self, observer: Callable[[dict[str, Any]], None]) -> None:
        """Call a function with each record that is new from now on, after it was written."""
        self._observers.append(observer)

    def close(self) -> None:
        """End writing; twice is the same as once."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def __contains__(self, key: object) -> bool:
        return key in self._lines

    def __getitem__(self, key: str) -> dict[str, Any]:
        record: dict[str, Any] = decode(self._lines[key])
        return record

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in list(self._lines.values()):
            yield decode(line)

    def __len__(self) -> int:
        return len(self._lines)

    def _check_same(self, key: str, line: str) -> None:
        before, now = decode(self._lines[key]), decode(line)
        names = [name for name in {**before, **now} if _exact(before, name) != _exact(now, name)]
        if names:
            name = names[0]
            raise RunError(
                f"a resumed run must repeat its records exactly, but {name!r} of {key!r} was "
                f"{before.get(name, 'absent')!r} and is now {now.get(name, 'absent')!r}."
            )

    def _write(self, data: bytes) -> None:
        if self._descriptor < 0:
            raise RunError(f"cannot write {self._path}: the run is closed.")
        with writing(self._path):
            size = os.fstat(self._descriptor).st_size
            try:
                write_all(self._descriptor, data)
                if time.monotonic() - self._synced_at >= _SECONDS_BETWEEN_SYNCS:
                    os.fsync(self._descriptor)
                    self._synced_at = time.monotonic()
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, size)
                raise


def read_records(run: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a run directory in the order of the file, read without a lock, also while the run goes on.

    Raises:
        ConfigError: If the folder has no records.
        RunError: If a line is damaged; the line is named. A last line that is still being written is left out.
    """
    path = Path(run) / "records.jsonl"
    if not path.is_file():
        raise ConfigError(f"a run directory must contain records.jsonl, but {run} does not.")
    content = _read(path)
    lines = _index(path, content[: content.rfind(b"\n") + 1], _are_checked(Path(run)))
    return [decode(line) for line in lines.values()]


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise DiskError(f"cannot read {path}: {error.strerror or error}.") from error


def _are_checked(run: Path) -> bool:
    """Whether the records of a run directory have checksums, by the format that its ``config.json`` names."""
    try:
        return bool(decode(read_regular(run / "config.json"))["format"] > 1)
    except (OSError, ValueError, TypeError, KeyError):
        return False  # records alone: those that have a checksum are compared with it, in any case


def _with_sum(line: str) -> str:
    """A record's line with its checksum as its last field, so that it stays one JSON object."""
    return f'{line[:-1]},"{_SUM}":"{hashlib.sha256(line.encode()).hexdigest()[:_NUM_DIGITS]}"}}'


def _index(path: Path, content: bytes, checked: bool) -> dict[str, str]:
    lines: dict[str, str] = {}
    for number, data in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            line = data.decode()
            if _SUM_AT_THE_END.search(line):
                line, found = line[:-_SUM_LENGTH] + "}", line
                if _with_sum(line) != found:
                    raise ValueError
            elif checked:
                raise ValueError
            record = decode(line)
            key = record["key"]
            if not isinstance(key, str):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise RunError(f"every line of {path} must be a record, but line {number} is damaged.") from None
        if key in lines:
            raise RunError(f"every key of {path} must be there once, but line {number} repeats {key!r}.")
        lines[key] = line
    return lines


def _exact(record: dict[str, Any], name: str) -> str | None:
    """A field as text, so that NaN equals NaN, and 1, 1.0 and True differ."""
    return encode(record[name], sort_keys=True) if name in record else None
