"""A table of numbers in a file, ``FILE.csv:target=COLUMN``: a row a sample, a column what it tells or is told."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ramet.data.raw import Labelled, RawData, require_file
from ramet.errors import ConfigError, DataError
from ramet.registry import parse_options

SUFFIXES = (".csv", ".tsv")


def is_table(source: object) -> bool:
    """Whether a text names a table, with its columns or without."""
    return isinstance(source, str) and Path(source.partition(":")[0]).suffix.lower() in SUFFIXES


def from_table(source: str) -> RawData:
    """The rows of a table.

    Args:
        source: ``FILE.csv:target=COLUMN`` for numbers (``target=[a,b]`` for several), ``FILE.csv:label=COLUMN`` for
            classes; ``without=[c,d]`` leaves columns out. The first line has the names of the columns; all columns but
            labels are numbers. The columns of a ``.tsv`` are separated by tabs.

    Raises:
        DataError: the file or a column is missing, or a cell is no number.
    """
    place, _, rest = source.partition(":")
    form = "a table is named as FILE.csv:target=COLUMN, or label=COLUMN for classes, perhaps with without=[COLUMN,...]"
    try:
        options = parse_options(rest) if rest else {}
    except ConfigError:
        options = {"": rest}
    if set(options) - {"target", "label", "without"} or ("target" in options) == ("label" in options):
        raise DataError(f"{form}, but got {source!r}.")
    path = Path(place).expanduser()
    names, rows = _read(path)
    targets = _columns(options.get("target", options.get("label")), names, path)
    left_out = _columns(options.get("without", []), names, path)
    features = [number for number in range(len(names)) if number not in targets + left_out]
    if not features:
        raise DataError(f"a table must have columns besides its targets, but {path} has {', '.join(names)}.")
    x = _numbers(rows, features, names, path)
    if "target" in options:
        y = _numbers(rows, targets, names, path)
        return RawData(path.stem, Labelled(x, y[:, 0] if len(targets) == 1 else y, str(path)), targets="numbers")
    if len(targets) != 1:
        raise DataError(f"a label is one column, but got {options['label']!r}.")
    labels = np.array([row[targets[0]].strip() for row in rows])
    if empty := [number for number, label in enumerate(labels.tolist(), start=2) if not label]:
        raise DataError(f"every row must have a label, but line {empty[0]} of {path} has none.")
    return RawData(path.stem, Labelled(x, labels, str(path)), targets="classes")


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the cells of all other lines; empty lines do not count."""
    require_file(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [
                line for line in csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",") if line
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} must be a table in UTF-8, but cannot be read: {error}.") from None
    if len(lines) < 2:
        raise DataError(f"a table must have a line of names and rows below it, but {path} has {len(lines)} lines.")
    names = [name.strip() for name in lines[0]]
    if double := [name for place, name in enumerate(names) if name in names[:place]]:
        raise DataError(f"the columns of a table must have different names, but {path} has {double[0]!r} twice.")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(names):
            raise DataError(
                f"every row must have a cell for each of the {len(names)} columns, but row {number} of {path} has "
                f"{len(line)}."
            )
    return names, lines[1:]


def _columns(wanted: object, names: Sequence[str], path: Path) -> list[int]:
    """The places of columns by name: one, or a list in brackets, whose names need no quotes."""
    if isinstance(wanted, str) and wanted[:1] == "[" and wanted[-1:] == "]" and wanted not in names:
        wanted = [name.strip() for name in wanted[1:-1].split(",")]
    found = []
    for name in [str(each) for each in (wanted if isinstance(wanted, list) else [wanted])]:
        if name not in names:
            raise DataError(f"a column must be one of {', '.join(names)}, but {name!r} is none of {path}.")
        found.append(names.index(name))
    return found


def _numbers(
    rows: Sequence[Sequence[str]], places: Sequence[int], names: Sequence[str], path: Path
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The cells of some columns as numbers, [rows, columns]."""
    values = np.empty((len(rows), len(places)))
    for number, row in enumerate(rows):
        for place, column in enumerate(places):
            try:
                values[number, place] = float(row[column])
            except ValueError:
                raise DataError(
                    f"column {names[column]!r} of {path} must hold numbers, but row {number + 2} has "
                    f"{row[column]!r}; without=[{names[column]}] leaves it out."
                ) from None
    return values
