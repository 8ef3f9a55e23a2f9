"""A ``.npy`` file that is written row by row: how many there are is known at its end, and its checksums with it."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data.array_header import read_header
from ramet.data.raw import Array
from ramet.errors import DataError
from ramet.runs.atomic import write_all, writing
from ramet.runs.encoding import Json

PIECE = 2**24
"""Bytes that are written, and have a checksum, at a time."""

MOST_CHECKED = 64
"""Pieces of a file that are compared with their checksums when it is taken again: all of a gigabyte."""

LEFT_FREE = 2**28
"""Bytes that stay free on the disk, because others write there, too."""

_HEADER = 512  # a multiple of 64, as mapped arrays are best aligned, and enough for the shape of any array


def require_disk(folder: Path, num_bytes: int) -> None:
    """Refuse, with a ``DataError``, what would leave less than 256 MB on the disk of a folder."""
    free = shutil.disk_usage(folder).free
    if num_bytes + LEFT_FREE > free:
        raise DataError(
            f"the disk of {folder} must have room for {num_bytes:,} bytes and {LEFT_FREE:,} that stay free, but has "
            f"{free:,}."
        )


class ArrayWriter:
    """Rows of one shape and one type of numbers, written to a ``.npy`` file as they come.

    Args:
        path: the file, which is not there yet.
        dtype: the type of the numbers, or texts.
        shape: of one row.

    Raises:
        DataError: the disk would be full.
        DiskError: it cannot be written.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self.count = dtype, shape, 0
        self._path, self._pending, self._sums = path, bytearray(), list[int]()
        with writing(path):
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 (held until finish or close)
            write_all(self._file.fileno(), bytes(_HEADER))

    def append(self, rows: Array) -> None:
        """Write further rows, [n, *shape]."""
        assert rows.dtype == self.dtype and rows.shape[1:] == self.shape
        self._pending += rows.tobytes()
        self.count += len(rows)
        while len(self._pending) >= PIECE:
            self._write(PIECE)

    def finish(self) -> Json:
        """Write what is left and the header, and give what says whether the file is still the same one."""
        while self._pending:
            self._write(PIECE)
        shape = (self.count, *self.shape)
        told = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        start = np.lib.format.magic(1, 0) + struct.pack("<H", _HEADER - 10)
        with writing(self._path):
            self._file.seek(0)
            write_all(self._file.fileno(), start + repr(told).encode().ljust(_HEADER - 11) + b"\n")
            os.fsync(self._file.fileno())
        self.close()
        return {"dtype": self.dtype.str, "shape": list(shape), "sums": self._sums}

    def close(self) -> None:
        """Let the file go, whole or not."""
        self._file.close()

    def _write(self, count: int) -> None:
        piece = bytes(self._pending[:count])
        del self._pending[:count]
        require_disk(self._path.parent, len(piece))
        with writing(self._path):
            write_all(self._file.fileno(), piece)
        self._sums.append(zlib.crc32(piece))


def check_array(path: Path, told: Json) -> None:
    """Refuse a file that is another one than what ``ArrayWriter.finish`` told of.

    Of more than 64 pieces, 1 GB, so many are compared with their checksums, evenly spread.

    Raises:
        DataError: it is missing or damaged, or holds something else.
    """
    try:
        with path.open("rb") as file:
            header = read_header(file, path.stat().st_size, str(path))
            same = [header.dtype.str, list(header.shape)] == [told["dtype"], told["shape"]]
            sums = told["sums"]
            for place in np.unique(np.linspace(0, len(sums) - 1, min(len(sums), MOST_CHECKED)).astype(int)).tolist():
                file.seek(header.start + place * PIECE)
                same = same and zlib.crc32(file.read(PIECE)) == sums[place]
    except OSError as error:
        raise DataError(f"{path} must be readable, but is not: {error.strerror}.") from error
    if not same:
        raise DataError(
            f"{path} must be as it was written, but is damaged or another; remove its folder to write it again."
        )
