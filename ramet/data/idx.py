"""The IDX format of MNIST and Fashion-MNIST: a magic number, the sizes of the axes, and bytes, all gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from ramet.data.memory import require_room
from ramet.data.raw import Array, Labelled, RawData, require_file
from ramet.errors import DataError

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_UNSIGNED_BYTE = 0x08  # the code of the only element type that these sets use


def read_idx(path: Path, num_axes: int) -> Array:
    """Read a gzipped IDX file of bytes with so many axes; a ``DataError`` if it is missing, damaged or another."""
    require_file(path)
    try:
        with gzip.open(path) as file:
            header = file.read(4 + 4 * num_axes)
            magic = bytes([0, 0, _UNSIGNED_BYTE, num_axes])
            if header[:4] != magic:
                raise DataError(f"{path} must begin with the magic number {magic.hex()}, but has {header[:4].hex()}.")
            if len(header) < 4 + 4 * num_axes:
                raise DataError(f"{path} must name the sizes of {num_axes} axes, but ends after {len(header)} bytes.")
            shape = struct.unpack(f">{num_axes}I", header[4:])
            # Beside an axis of size 0 others may say anything, for no bytes; an array can't.
            require_room(math.prod(size for size in shape if size), str(path))
            content = file.read(math.prod(shape) + 1)  # one more tells a longer file, without unpacking the rest
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} must be a whole gzip file, but is damaged: {error}.") from error
    except OSError as error:
        raise DataError(f"a data file must be readable, but {path} is not: {error.strerror}.") from error
    if len(content) != math.prod(shape):
        found = "more" if len(content) > math.prod(shape) else str(len(content))
        raise DataError(
            f"{path} must hold {math.prod(shape)} bytes after its header, for its shape {shape}, but holds {found}."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_idx_folder(folder: Path, name: str, class_names: tuple[str, ...]) -> RawData:
    """Read the four files of MNIST or of a set in its form."""
    train_images, train_labels, test_images, test_labels = (
        read_idx(folder / file, 3 if "images" in file else 1) for file in FILES
    )
    return RawData(
        name,
        train=Labelled(train_images, train_labels, f"{name}'s training files"),
        test=Labelled(test_images, test_labels, f"{name}'s test files"),
        layout="NHW",
        class_names=class_names,
    )
