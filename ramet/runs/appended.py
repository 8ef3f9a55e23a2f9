"""A list that only grows, in a file to which each item is written once; a checkpoint says how much of it counts.

A checkpoint holds all of a state. A list inside it, to which every save adds an item, would be written again with each
of them: of n items, n squared.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ramet.errors import DiskError
from ramet.runs.atomic import sync_folder, write_all, writing
from ramet.runs.encoding import JSON, decode, encode
from ramet.runs.regular import check_regular


class AppendedList:
    """Items of JSON in the order in which they came, a line each.

    Save a checkpoint with ``mark`` after ``extend``, and ``load`` that mark when going on: what was appended after that
    checkpoint is cut off, because it will come again.

    Args:
        path: The file; made, with its folder, by the first item.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
    >>> rows = AppendedList(path)
    >>> rows.extend([{"task": "a"}, {"task": "b"}])
    >>> mark = rows.mark
    >>> rows.extend([{"task": "c"}])
    >>> AppendedList(path).load(mark)
    [{'task': 'a'}, {'task': 'b'}]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._num_items = self._num_bytes = 0
        self._digest = hashlib.sha256()

    @property
    def mark(self) -> dict[str, JSON]:
        """What tells the items so far from all others."""
        return {"items": self._num_items, "bytes": self._num_bytes, "sha256": self._digest.hexdigest()}

    def __len__(self) -> int:
        return self._num_items

    def extend(self, items: Sequence[JSON]) -> None:
        """Add items; they are on the disk when it returns.

        Raises:
            DiskError: The disk refuses.
            TypeError: An item is no JSON.
        """
        data = b"".join(encode(item, where="appended item").encode() + b"\n" for item in items)
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                # Whatever lies behind the end is what a killed process wrote after its last checkpoint.
                os.ftruncate(descriptor, self._num_bytes)
                os.lseek(descriptor, self._num_bytes, os.SEEK_SET)
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not self._num_items:
                sync_folder(self._path.parent)
        self._num_items += len(items)
        self._num_bytes += len(data)
        self._digest.update(data)

    def load(self, mark: dict[str, Any]) -> list[Any] | None:
        """The items that a mark stands for, from which the list goes on; None if they are not there as they were.

        Raises:
            DiskError: The file is there but cannot be read.
        """
        try:
            check_regular(self._path)
            with open(self._path, "rb") as file:
                data = file.read(mark["bytes"])
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise DiskError(f"cannot read {self._path}: {error.strerror or error}.") from error
        digest = hashlib.sha256(data)
        if digest.hexdigest() != mark["sha256"]:
            return None
        items = [decode(line) for line in data.splitlines()]
        self._num_items, self._num_bytes, self._digest = len(items), len(data), digest
        return items
