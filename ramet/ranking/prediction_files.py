"""Predictions, scores and labels of examples, from files of numbers or texts; never a pickle."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ramet.data.npz import read_npz
from ramet.errors import DataError

Array = NDArray[Any]
SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".safetensors")
LABELS = ("labels", "label")


@dataclass(frozen=True)
class ExampleValues:
    """What a file has: the values of examples, and their labels if they are there too."""

    values: Array
    labels: Array | None = None


def read_predictions(source: str) -> ExampleValues:
    """The values of a file, named as ``FILE`` or ``FILE:NAME``, and its labels.

    A ``.npy`` holds one array. A ``.npz`` or ``.safetensors`` holds arrays by name, a ``.csv`` or ``.tsv`` columns
    under a line of names: ``labels`` or ``label`` are the labels, and the values are what ``NAME`` says, or the only
    other.

    Raises:
        DataError: the file is missing, damaged or of another kind; a name is missing, or several could be meant.
    """
    path, name = _split_name(source)
    arrays = _arrays(path)
    labels = next((arrays[key] for key in LABELS if key in arrays), None)
    if name is None:
        others = [key for key in arrays if key not in LABELS] or list(arrays)
        if len(others) != 1:
            raise DataError(f"name one array of {path.name} as FILE:NAME; it has {', '.join(others) or 'none'}.")
        name = others[0]
    if name not in arrays:
        raise DataError(f"{path.name} has no array {name!r}; it has {', '.join(arrays)}.")
    return ExampleValues(arrays[name], None if name in LABELS else labels)


def _split_name(source: str) -> tuple[Path, str | None]:
    if Path(source).exists() or ":" not in source:
        path, name = source, None
    else:
        path, _, name = source.rpartition(":")
    found = Path(path).expanduser()
    if found.suffix.lower() not in SUFFIXES:
        raise DataError(f"predictions are read from {', '.join(SUFFIXES)}, but got {path!r}.")
    if not found.is_file():
        raise DataError(f"predictions must be in a file, but {path} is not one.")
    return found, name


def _arrays(path: Path) -> dict[str, Array]:
    kind = path.suffix.lower()
    if kind == ".npz":
        return _read_npz(path)
    if kind == ".npy":
        try:
            return {path.stem: np.load(path, allow_pickle=False)}
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} must be a whole .npy file of numbers, but cannot be read as one.") from error
    return _read_safetensors(path) if kind == ".safetensors" else _read_table(path)


def _read_npz(path: Path) -> dict[str, Array]:
    read_npz(path, ())  # refuses what is no archive
    with np.load(path, allow_pickle=False) as file:
        names = tuple(file.files)
    return read_npz(path, names)


def _read_safetensors(path: Path) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file  # numpy has no bfloat16

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} must be a whole .safetensors file, but cannot be read as one.") from error
    return {name: (t.float() if t.is_floating_point() else t).numpy() for name, t in tensors.items()}


def _read_table(path: Path) -> dict[str, Array]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",") if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} must be a table of text in UTF-8, but cannot be read as one.") from error
    if len(rows) < 2:
        raise DataError(f"{path.name} must have a line of names and a line an example, but has {len(rows)} lines.")
    names = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(f"a line of {path.name} must have {len(names)} cells, but line {number} has {len(row)}.")
    return {name: _column([row[place].strip() for row in rows[1:]]) for place, name in enumerate(names)}


def _column(cells: list[str]) -> Array:
    """Whole numbers, numbers, or texts: whatever fits all cells."""
    for kind in (int, float):
        try:
            return np.array([kind(cell) for cell in cells])
        except ValueError:
            continue
    return np.array(cells)
