"""Arrays by name: an ``.npz`` file, or a mapping in Python; never a pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data.arrays import as_array
from ramet.data.raw import Array, Labelled, Layout, RawData, require_file
from ramet.errors import DataError

SPLIT_NAMES = ("x_train", "y_train", "x_test", "y_test")
WHOLE_NAMES = ("x", "y")


def read_npz(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """The named arrays of an ``.npz`` file; a name that it does not have is left out, other arrays are not read.

    Raises:
        DataError: If the file is missing or damaged, is no ``.npz``, or needs unpickling.
    """
    require_file(path)
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise DataError(f"{path} must be an .npz file of named arrays, but is a single array.")
        with file:
            return {name: file[name] for name in names if name in file.files}
    except DataError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        if "allow_pickle" in str(error) and zipfile.is_zipfile(path):
            raise DataError(f"{path} must hold arrays of numbers or text, but holds Python objects.") from error
        raise DataError(f"{path} must be a whole .npz file, but cannot be read as one.") from error


def from_npz(path: Path, layout: Layout | None = None) -> RawData:
    """The user's own ``.npz``: ``x_train``, ``y_train``, ``x_test``, ``y_test``, or ``x`` and ``y``."""
    return from_arrays(read_npz(path, SPLIT_NAMES + WHOLE_NAMES), name=path.stem, place=f" of {path}", layout=layout)


def from_npy_files(folder: Path, layout: Layout | None = None) -> RawData:
    """The same names as files of their own, ``x_train.npy`` and so on, which are mapped and not read.

    Raises:
        DataError: If a file is damaged or needs unpickling, or one is missing.
    """
    arrays: dict[str, Array] = {}
    for name in SPLIT_NAMES + WHOLE_NAMES:
        path = folder / f"{name}.npy"
        if path.exists():
            require_file(path)
            try:
                arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"{path} must be a whole .npy file of numbers, but cannot be read as one.") from error
    return from_arrays(arrays, name=folder.absolute().name, place=f" of {folder}", layout=layout)


def from_arrays(arrays: Mapping[str, Any], *, name: str, place: str = "", layout: Layout | None = None) -> RawData:
    """Named arrays or tensors, with a test set of their own or to be split.

    Raises:
        DataError: If names are missing, or if both forms are there.
    """
    split = [key for key in SPLIT_NAMES if key in arrays]
    whole = [key for key in WHOLE_NAMES if key in arrays]
    if split and whole:
        raise DataError(f"the arrays{place} must be x and y or x_train to y_test, but there are {whole + split}.")
    wanted = SPLIT_NAMES if split else WHOLE_NAMES
    missing = [key for key in wanted if key not in arrays]
    if missing:
        raise DataError(
            f"the arrays{place} must be x_train, y_train, x_test and y_test, or x and y, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing."
        )
    found = {key: as_array(arrays[key], key + place) for key in wanted}
    parts = [
        Labelled(found[images], found[labels], images + place)
        for images, labels in zip(wanted[::2], wanted[1::2], strict=True)
    ]
    return RawData(name, train=parts[0], test=parts[1] if split else None, layout=layout)
