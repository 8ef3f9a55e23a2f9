"""What is known of the truth: a cache of trainings by content, and tables that others have measured."""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ramet.data.npz import read_npz
from ramet.errors import ConfigError, DataError, RunError
from ramet.ranking.metrics import Floats
from ramet.ranking.setup import SupernetSetup
from ramet.spaces import Space

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Truth:
    """The true scores of a list of children, [seeds, children], and where they come from; a table has a single row."""

    scores: Floats
    source: str

    @property
    def mean(self) -> Floats:
        """The mean over seeds: the best estimate there is; shape [children]."""
        mean: Floats = self.scores.mean(axis=0)
        return mean


class TruthCache:
    """The results of children trained alone, kept by content so that no diagnosis trains a child twice.

    One file holds one setting: its name is the fingerprint of the space, the data and the settings, its first line says
    them in full, and each further line is one training. Lines are appended under a file lock, so that several runs may
    share a cache.

    Args:
        folder: where the files lie; made when there is something to keep.
        setup: what children are trained with.
        is_needed: whether a folder that cannot be used ends the run, because the user named it. A run has all results
            in its own records, and goes on without a cache that nobody asked for.
    """

    def __init__(self, folder: Path, setup: SupernetSetup, *, is_needed: bool = True) -> None:
        self._path = folder / f"{setup.fingerprint()}.jsonl"
        self._bench = setup
        self._is_needed, self._is_usable = is_needed, True
        self._results: dict[tuple[str, int], dict[str, Any]] = {}
        try:
            former = folder / f"{setup.former_fingerprint()}.jsonl"
            if former.exists():  # a cache goes on under the name that it was begun with
                self._path = former
            if self._path.exists():
                for line in _lines(self._path):
                    if "arch" in line:
                        self._results[line["arch"], line["seed"]] = line["result"]
        except OSError as error:
            self._give_up(error)

    def get(self, index: int, seed: int) -> dict[str, Any] | None:
        """The result of a training, if it is known."""
        return self._results.get((self._name(index), seed))

    def put(self, index: int, seed: int, result: dict[str, Any]) -> None:
        """Keep the result of a training."""
        if (self._name(index), seed) in self._results:
            return
        self._results[self._name(index), seed] = result
        if not self._is_usable:
            return
        entry = {"arch": self._name(index), "seed": seed, "result": result}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_suffix(".lock")), open(self._path, "a+b") as file:
                header = b"" if file.tell() else _line({"setting": self._bench.describe()})
                file.write(_end_of_torn_line(file) + header + _line(entry))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        reason = f"the truth cache {self._path} must be readable and writable, but: {error.strerror}."
        if self._is_needed:
            raise RunError(reason) from error
        self._is_usable = False
        _logger.warning("No truth is kept for other runs: %s", reason)

    def _name(self, index: int) -> str:
        return self._bench.space.name(self._bench.space[index])


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _end_of_torn_line(file: Any) -> bytes:
    """A line break, if the file's last line was cut off by a kill in the middle of a write."""
    if file.tell() == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a cache file; a torn one, which a kill may leave, is passed over and trained again."""
    lines = []
    for text in path.read_bytes().splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def read_table(source: str, space: Space, indices: Sequence[int]) -> Truth:
    """A truth that somebody else has measured, of the children that are wanted.

    ``source`` is ``FILE.csv`` with a column ``arch`` in the space's notation and one or more columns of scores, or
    ``FILE.npz`` with an array ``arch``; ``FILE:COLUMN`` names the column where there are several.

    Raises:
        DataError: the file is missing or damaged, or lacks a child or the column.
    """
    path, column = _split_column(source)
    if not path.is_file():
        raise DataError(f"a table of the truth must be a file, but {path} is not one.")
    archs, columns = _read_npz(path) if path.suffix == ".npz" else _read_csv(path)
    if not columns:
        raise DataError(f"{path.name} must have a column of numbers beside arch, but has none.")
    if column is None:
        if len(columns) != 1:
            raise DataError(f"name one column of {path.name} as FILE:COLUMN; it has {', '.join(sorted(columns))}.")
        column = next(iter(columns))
    if column not in columns:
        raise DataError(f"{path.name} has no column of numbers {column!r}; it has {', '.join(sorted(columns))}.")
    if len(columns[column]) != len(archs):
        raise DataError(f"{path.name} has {len(archs)} architectures, but {len(columns[column])} values of {column}.")
    rows = {_parsed(space, text, path): row for row, text in enumerate(archs)}
    if len(rows) < len(archs):
        raise DataError(f"{path.name} must name an architecture once, but names {_repeated(archs)} again.")
    missing = [index for index in indices if index not in rows]
    if missing:
        raise DataError(f"{path.name} must score every ranked child, but lacks {space.name(space[missing[0]])}.")
    scores = columns[column][[rows[index] for index in indices]]
    if not np.isfinite(scores).all():
        raise DataError(f"{path.name} must have finite scores, but column {column} has NaN or infinite ones.")
    return Truth(scores[None], source=f"{path.name}, column {column}")


def _split_column(source: str) -> tuple[Path, str | None]:
    if Path(source).exists() or ":" not in source:
        return Path(source), None
    path, _, column = source.rpartition(":")
    return Path(path), column


def _repeated(archs: Sequence[str]) -> str:
    """The first text that is there twice."""
    return next((text for place, text in enumerate(archs) if text in archs[:place]), "one in another spelling")


def _parsed(space: Space, text: str, path: Path) -> int:
    try:
        return space.index(space.parse(text))
    except ConfigError as error:
        raise DataError(f"{path.name} must name architectures of the space; {error}") from None


def _read_npz(path: Path) -> tuple[list[str], Mapping[str, Floats]]:
    arrays = read_npz(path)
    if "arch" not in arrays:
        raise DataError(f"{path.name} must have an array named arch, but has none.")
    columns = {
        name: array.astype(float)
        for name, array in arrays.items()
        if name != "arch" and array.dtype.kind in "fiu" and array.ndim == 1
    }
    return [str(text) for text in arrays["arch"].reshape(-1)], columns


def _read_csv(path: Path) -> tuple[list[str], Mapping[str, Floats]]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets begin a file with a mark of its order
            rows = list(csv.DictReader(file, restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} must be a CSV file in UTF-8, but cannot be read: {error}.") from None
    if not rows or "arch" not in rows[0]:
        raise DataError(f"{path.name} must have a header with a column named arch, and at least one row.")
    columns = {}
    for name in rows[0]:
        if name == "arch":
            continue
        try:
            columns[name] = np.array([float(row[name]) for row in rows])
        except (TypeError, ValueError):
            continue
    return [row["arch"] for row in rows], columns
