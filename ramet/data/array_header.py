"""What a NumPy file says that it holds: read, and compared with its length, before room is made for it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ramet.data.memory import require_room
from ramet.data.raw import Array, require_file
from ramet.errors import DataError


@dataclass(frozen=True)
class ArrayHeader:
    """The shape and the type of the numbers of an array, and where in the file they begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int

    @property
    def num_bytes(self) -> int:
        """Those of the array's content; a Python integer, which no header can make overflow."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], length: int, place: str) -> ArrayHeader:
    """The header at the start of a ``.npy`` file or of an array in an ``.npz`` file.

    Args:
        file: open at its start.
        length: the bytes of the whole file, unpacked.
        place: what an error calls it.

    Raises:
        DataError: it is damaged, needs unpickling, or promises more or less than the file has.
    """
    refusal = f"{place} must be a whole array of NumPy's format, but cannot be read as one."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = read(file)
        header = ArrayHeader(tuple(shape), dtype, file.tell())
    except Exception as error:  # the header is a literal of Python, whose parser raises much
        raise DataError(refusal) from error
    if header.dtype.hasobject:
        raise DataError(f"{place} must hold arrays of numbers or text, but holds Python objects.")
    if any(type(size) is not int or size < 0 for size in header.shape) or header.dtype.itemsize == 0:
        raise DataError(refusal)
    if header.start + header.num_bytes != length:
        # Also one that is longer: what nobody asked for would be unpacked to come to the checksum behind it.
        ends = "ends after" if header.start + header.num_bytes > length else "has"
        raise DataError(
            f"{place} must be as long as its header says, {header.num_bytes:,} bytes for the shape {header.shape}, "
            f"but {ends} {length - header.start:,}."
        )
    return header


def read_array_file(path: Path) -> Array:
    """The array of a ``.npy`` file, if the machine has room for it.

    Raises:
        DataError: it is damaged, needs unpickling, or is too large.
    """
    require_file(path)
    try:
        with path.open("rb") as file:
            require_room(read_header(file, path.stat().st_size, str(path)).num_bytes, str(path))
            file.seek(0)
            array: Array = np.lib.format.read_array(file, allow_pickle=False)
            return array
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} must be a whole .npy file of numbers, but cannot be read as one.") from error


def map_array_file(path: Path) -> Array:
    """The array of a ``.npy`` file, which stays on the disk.

    Raises:
        DataError: it is damaged or needs unpickling.
    """
    require_file(path)
    try:
        with path.open("rb") as file:
            read_header(file, path.stat().st_size, str(path))
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} must be a whole .npy file of numbers, but cannot be read as one.") from error
