"""Arrays by name: an ``.npz`` file, or a mapping in Python; never a pickle."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data.array_header import map_array_file, read_header
from ramet.data.arrays import as_array
from ramet.data.memory import require_room
from ramet.data.raw import Array, Labelled, Layout, RawData, require_file
from ramet.errors import DataError

SPLIT_NAMES = ("x_train", "y_train", "x_test", "y_test")
WHOLE_NAMES = ("x", "y")


def read_npz(
    path: Path, names: tuple[str, ...] | None = None, check: Callable[[Collection[str]], object] = lambda names: None
) -> dict[str, Array]:
    """The named arrays of an ``.npz`` file, or all; a name that it does not have is left out, others are not read.

    What all of them will take is known from their headers before the first is unpacked, and ``check`` may refuse their
    names then.

    Raises:
        DataError: If the file is missing or damaged, is no ``.npz``, needs unpickling, or is too large.
    """
    require_file(path)
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                    raise DataError(f"{path} must be an .npz file of named arrays, but is a single array.")
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, names)
            check(members.keys())
            num_bytes = 0
            for name, member in members.items():
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise DataError(f"{name} of {path} must be stored or deflated, as NumPy does it, but is not.")
                with archive.open(member) as content:
                    num_bytes += read_header(content, member.file_size, f"{name} of {path}").num_bytes
            require_room(num_bytes, str(path))
            arrays = {}
            for name, member in members.items():
                with archive.open(member) as content:
                    arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
                    content.read()  # the checksum is looked at where a member ends
            return arrays
    except DataError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(f"{path} must be a whole .npz file, but cannot be read as one.") from error
    except (RuntimeError, MemoryError, OverflowError, struct.error) as error:  # a password, or sizes that are not true
        raise DataError(f"{path} must be a whole .npz file, but cannot be read as one.") from error


def _members(archive: zipfile.ZipFile, names: tuple[str, ...] | None) -> dict[str, zipfile.ZipInfo]:
    """Where in an archive each array lies, as NumPy names them."""
    found = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    return {name: found[name] for name in (found if names is None else names) if name in found}


def from_npz(path: Path, layout: Layout | None = None) -> RawData:
    """The user's own ``.npz``: ``x_train``, ``y_train``, ``x_test``, ``y_test``, or ``x`` and ``y``."""
    place = f" of {path}"
    arrays = read_npz(path, SPLIT_NAMES + WHOLE_NAMES, lambda names: _wanted(names, place))
    return from_arrays(arrays, name=path.stem, place=place, layout=layout)


def from_npy_files(folder: Path, layout: Layout | None = None) -> RawData:
    """The same names as files of their own, ``x_train.npy`` and so on, which are mapped and not read.

    Raises:
        DataError: If a file is damaged or needs unpickling, or one is missing.
    """
    arrays: dict[str, Array] = {}
    for name in SPLIT_NAMES + WHOLE_NAMES:
        path = folder / f"{name}.npy"
        if path.exists():
            arrays[name] = map_array_file(path)
    return from_arrays(arrays, name=folder.absolute().name, place=f" of {folder}", layout=layout)


def from_arrays(arrays: Mapping[str, Any], *, name: str, place: str = "", layout: Layout | None = None) -> RawData:
    """Named arrays or tensors, with a test set of their own or to be split.

    Raises:
        DataError: If names are missing, or if both forms are there.
    """
    wanted = _wanted(arrays.keys(), place)
    found = {key: as_array(arrays[key], key + place) for key in wanted}
    parts = [
        Labelled(found[images], found[labels], images + place)
        for images, labels in zip(wanted[::2], wanted[1::2], strict=True)
    ]
    return RawData(name, train=parts[0], test=parts[1] if len(parts) == 2 else None, layout=layout)


def _wanted(names: Collection[str], place: str) -> tuple[str, ...]:
    """Which of the two forms some names are, or a ``DataError``."""
    split = [key for key in SPLIT_NAMES if key in names]
    whole = [key for key in WHOLE_NAMES if key in names]
    if split and whole:
        raise DataError(f"the arrays{place} must be x and y or x_train to y_test, but there are {whole + split}.")
    wanted = SPLIT_NAMES if split else WHOLE_NAMES
    missing = [key for key in wanted if key not in names]
    if missing:
        raise DataError(
            f"the arrays{place} must be x_train, y_train, x_test and y_test, or x and y, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing."
        )
    return wanted
