"""What is known of the truth: a cache of trainings by content, and tables that others have measured."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from filelock import FileLock

from ramet.errors import DataError, RunError
from ramet.ranking.metrics import Floats
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.tables import Unit, read_scores
from ramet.spaces import Space

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Truth:
    """The true scores of a list of children, and where they come from.

    Args:
        scores: [seeds, children], higher being better; shares, where they are accuracies.
        source: where they come from, in words.
        unit: what a table has; a training gives shares that are accuracies, or the run's ``metric``.
        deviation: of one seed, [children], where a table has it in place of the seeds.
        num_seeds: how many seeds a score is the mean of, where there is a deviation.
    """

    scores: Floats
    source: str
    unit: Unit | Literal["metric"] = "share"
    deviation: Floats | None = None
    num_seeds: int = 1

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
        self._is_needed, self._is_usable = is_needed, setup.is_told_by_name
        self._results: dict[tuple[str, int], dict[str, Any]] = {}
        if not self._is_usable:  # another object may go by the same name, and its values would pass for this one's
            _logger.warning("No truth is kept for other runs: a metric that is an object is not told by its name.")
            return
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
    """A truth that somebody else has measured, of the children that are wanted; ``read_scores`` says how a file is.

    Raises:
        DataError: the file is missing or damaged, lacks a child, or scores all of them the same.
    """
    table = read_scores(source)
    places = table.places(lambda text: space.index(space.parse(text)))
    missing = [index for index in indices if index not in places]
    if missing:
        raise DataError(f"{table.file} must score every ranked child, but lacks {space.name(space[missing[0]])}.")
    columns = [places[index] for index in indices]
    scores = table.scores[:, columns]
    if np.ptp(scores.mean(axis=0)) == 0:
        raise DataError(f"{table.file} must order the children, but scores all {len(columns)} the same.")
    deviation = None if table.deviation is None else table.deviation[columns]
    return Truth(scores, table.source, unit=table.unit, deviation=deviation, num_seeds=table.num_seeds)
