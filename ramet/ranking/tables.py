"""Tables of scores that somebody has measured: a row an architecture, one or several columns or rows for its seeds."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from ramet.data.npz import read_npz
from ramet.errors import ConfigError, DataError
from ramet.ranking.metrics import Floats

Unit = Literal["share", "percent", "score"]

NAMES = "arch"
"""The column that names architectures."""
SEED, COUNT = "seed", "seeds"
"""The column that says which seed a row is of, and the one that says of how many a mean is."""
DEVIATIONS = ("deviation", "std", "sd")


@dataclass(frozen=True)
class ScoreTable:
    """The scores of architectures, as a file has them.

    Args:
        file: the name of the file.
        source: the file and the columns, in words.
        names: the architectures as the file spells them, each once.
        rows: where the file names each first, counted as a spreadsheet does; its header is row 1.
        scores: [seeds, architectures]; a share where the file has per cent.
        unit: what the file has.
        deviation: of one seed, [architectures], where the file has it in place of the seeds.
        num_seeds: how many seeds a score is the mean of, as far as that is known.
    """

    file: str
    source: str
    names: list[str]
    rows: list[int]
    scores: Floats
    unit: Unit
    deviation: Floats | None = None
    num_seeds: int = 1

    def places(self, index: Callable[[str], int]) -> dict[int, int]:
        """The column of each architecture by what ``index`` makes of its name.

        Raises:
            DataError: ``index`` refuses a name, or takes two for one.
        """
        found: dict[int, int] = {}
        for place, (text, row) in enumerate(zip(self.names, self.rows, strict=True)):
            try:
                key = index(text)
            except ConfigError as error:
                raise DataError(f"{self.file} must name architectures of the space; row {row}: {error}") from None
            if key in found:
                raise DataError(f"{self.file} must spell an architecture in one way, but row {row} is {text!r}.")
            found[key] = place
        return found


@dataclass(frozen=True)
class _Sheet:
    """A file: a name for each row, the row's number, and columns of numbers; what is no number is NaN."""

    path: Path
    names: list[str]
    rows: list[int]
    columns: Mapping[str, Floats]
    bad: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def values(self, column: str) -> Floats:
        """The numbers of a column, all of them finite."""
        if column not in self.columns:
            raise DataError(f"{self.path.name} has no column of numbers {column!r}; it has {self.listed()}.")
        values = self.columns[column]
        if len(values) != len(self.names):
            raise DataError(
                f"{self.path.name} has {len(self.names)} architectures, but {len(values)} values of {column}."
            )
        for place in np.flatnonzero(~np.isfinite(values)):
            text = self.bad.get((column, int(place)), str(values[place]))
            raise DataError(
                f"{self.path.name} must have finite scores, but column {column} has {text!r} in row {self.rows[place]}."
            )
        return values

    def listed(self) -> str:
        return ", ".join(sorted(self.columns))


def read_scores(source: str) -> ScoreTable:
    """The scores of a file, with all the seeds that it has.

    ``FILE.csv`` has a column ``arch`` and one or more columns of scores, ``FILE.npz`` an array ``arch`` and others.
    Seeds are columns that differ in a number at their end (``acc1``, ``acc2``), or are named, ``FILE:COLUMN,COLUMN``;
    or rows: each architecture as often as there are seeds, perhaps with a column ``seed``. A column ``mean``, or one
    that ``FILE:COLUMN`` names, may have its deviation beside it: ``deviation``, ``std``, or ``COLUMN_std``; and
    ``seeds``, of how many it is the mean.

    Raises:
        DataError: the file is missing or damaged, lacks a column or a number, or has more rows of one architecture than
            of another; the row is named.
    """
    path, asked = _split_columns(source)
    if not path.is_file():
        raise DataError(f"a table of scores must be a file, but {path} is not one.")
    sheet = _read_npz(path) if path.suffix == ".npz" else _read_csv(path)
    columns, deviation = _chosen_columns(sheet, asked)
    values = np.stack([sheet.values(column) for column in columns])  # [columns, rows]
    groups = _rows_of_names(sheet)
    counts = {len(places) for places in groups.values()}
    if len(counts) > 1:
        name, places = min(groups.items(), key=lambda item: len(item[1]))
        raise DataError(
            f"{path.name} must name each architecture equally often, once for each seed, but has {max(counts)} rows of "
            f"some and {len(places)} of {name} (row {sheet.rows[places[0]]})."
        )
    order = np.array(list(groups.values()))  # [architectures, rows of each]
    scores = values[:, order].transpose(0, 2, 1).reshape(-1, len(order))  # [columns * rows of each, architectures]
    unit = unit_of(scores)
    scale = 0.01 if unit == "percent" else 1.0
    words = f"{path.name}, column{'s' * (len(columns) > 1)} {', '.join(columns)}"
    words += f", {len(scores)} seeds" * (len(scores) > 1) + ", read as per cent" * (unit == "percent")
    spread, num_seeds = None, len(scores)
    if deviation is not None and len(scores) == 1:
        spread = scale * sheet.values(deviation)[order[:, 0]]
        if (spread < 0).any():
            raise DataError(f"a deviation must not be negative, but {path.name} has one in column {deviation}.")
        num_seeds = int(sheet.values(COUNT)[order[0, 0]]) if COUNT in sheet.columns else 1
        words += f", deviation {deviation}"
    rows = [sheet.rows[places[0]] for places in groups.values()]
    return ScoreTable(path.name, words, list(groups), rows, scale * scores, unit, spread, max(1, num_seeds))


def read_columns(source: str) -> dict[str, ScoreTable]:
    """Each column of scores of a file as a ranking of its own, by its name; what ``FILE:COLUMN,COLUMN`` names, or all.

    Raises:
        DataError: as ``read_scores``.
    """
    path, asked = _split_columns(source)
    if not path.is_file():
        raise DataError(f"a table of scores must be a file, but {path} is not one.")
    sheet = _read_npz(path) if path.suffix == ".npz" else _read_csv(path)
    names = asked or tuple(name for name in sheet.columns if name not in (SEED, COUNT))
    if not names:
        raise DataError(f"{path.name} must have a column of numbers beside {NAMES}, but has none.")
    return {name: read_scores(f"{path}:{name}") for name in names}


def unit_of(scores: Floats) -> Unit:
    """What scores are: shares from 0 to 1, accuracies in per cent, or something else.

    Accuracies in per cent lie in [0, 100] with a median above 10: those of a benchmark with fewer right are rare, and a
    share is never that large.

    >>> [unit_of(np.array(values)) for values in ([0.7, 0.9], [70.1, 85.2], [-3.0, 2.0])]
    ['share', 'percent', 'score']
    """
    if scores.min() >= 0 and scores.max() <= 1:
        return "share"
    return "percent" if scores.min() >= 0 and scores.max() <= 100 and np.median(scores) > 10 else "score"


def _split_columns(source: str) -> tuple[Path, tuple[str, ...]]:
    if Path(source).exists() or ":" not in source:
        return Path(source), ()
    path, _, columns = source.rpartition(":")
    return Path(path), tuple(part.strip() for part in columns.split(","))


def _chosen_columns(sheet: _Sheet, asked: Sequence[str]) -> tuple[list[str], str | None]:
    """The columns that hold seeds, and that of the deviation, if there is one."""
    known = [name for name in sheet.columns if name not in (SEED, COUNT)]
    if not known:
        raise DataError(f"{sheet.path.name} must have a column of numbers beside {NAMES}, but has none.")
    if asked:
        beside = [f"{asked[0]}{mark}{word}" for mark in "_ -" for word in DEVIATIONS] if len(asked) == 1 else []
        if asked == ("mean",):
            beside += DEVIATIONS
        return list(asked), next((name for name in beside if name in sheet.columns), None)
    deviations = [name for name in known if name in DEVIATIONS]
    if "mean" in known and len(known) == 2 and deviations:
        return ["mean"], deviations[0]
    stems = {re.sub(r"[\W_]*\d+$", "", name) for name in known}
    if len(known) == 1 or (len(stems) == 1 and all(re.search(r"\d$", name) for name in known)):
        return known, None
    raise DataError(
        f"name one column of {sheet.path.name} as FILE:COLUMN, or those that are seeds as FILE:COLUMN,COLUMN; it has "
        f"{sheet.listed()}."
    )


def _rows_of_names(sheet: _Sheet) -> dict[str, list[int]]:
    """The places of each architecture in the file, by its name, ordered by the column ``seed`` where there is one."""
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(sheet.names):
        groups.setdefault(name, []).append(place)
    if SEED in sheet.columns:
        seeds = sheet.values(SEED)
        for name, places in groups.items():
            places.sort(key=lambda place: seeds[place])
            for before, after in itertools.pairwise(places):
                if seeds[before] == seeds[after]:
                    raise DataError(
                        f"{sheet.path.name} must have a row for each seed, but names {name} with seed "
                        f"{seeds[after]:g} again in row {sheet.rows[after]}."
                    )
    return groups


def _read_npz(path: Path) -> _Sheet:
    arrays = read_npz(path)
    if NAMES not in arrays:
        raise DataError(f"{path.name} must have an array named {NAMES}, but has none.")
    columns: dict[str, Floats] = {}
    for name, array in arrays.items():
        if name == NAMES or array.dtype.kind not in "fiu":
            continue
        if array.ndim == 1:
            columns[name] = array.astype(float)
        elif array.ndim == 2:  # [architectures, seeds]
            columns |= {f"{name}{seed}": array[:, seed].astype(float) for seed in range(array.shape[1])}
    names = [str(text) for text in arrays[NAMES].reshape(-1)]
    return _Sheet(path, names, [place + 1 for place in range(len(names))], columns)


def _read_csv(path: Path) -> _Sheet:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets begin a file with a mark of its order
            reader = csv.reader(file)
            header, lines = next(reader, []), []
            for fields in reader:
                if len(fields) > len(header):
                    raise DataError(
                        f"{path.name} must have a field for each of its {len(header)} columns, but row "
                        f"{reader.line_num} has {len(fields)}: put what contains commas in quotes."
                    )
                if fields:
                    lines.append((reader.line_num, dict(zip(header, [*fields, *[""] * len(header)], strict=False))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} must be a CSV file in UTF-8, but cannot be read: {error}.") from None
    if not lines or NAMES not in header:
        raise DataError(f"{path.name} must have a header with a column named {NAMES}, and at least one row.")
    columns: dict[str, Floats] = {}
    bad: dict[tuple[str, int], str] = {}
    for name in header:
        values = np.array([_number(line[name]) for _, line in lines])
        # A column with hardly a number is one of remarks; one with a few gaps is wrong in some rows.
        if name == NAMES or 2 * np.isnan(values).sum() > len(values):
            continue
        columns[name] = values
        bad |= {(name, place): line[name] for place, (_, line) in enumerate(lines) if np.isnan(values[place])}
    return _Sheet(path, [line[NAMES] for _, line in lines], [row for row, _ in lines], columns, bad)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
