"""A run's records told to loggers, as they are recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from ramet.registry import parse_list
from ramet.runs.directory import Run
from ramet.runs.loggers import LOGGERS
from ramet.runs.loggers.base import RunLogger


def make_loggers(text: str | None) -> list[RunLogger]:
    """Loggers by name, ``tensorboard,mlflow``, or ``FILE.py:Class``; none for no text.

    Raises:
        ConfigError: there is no such logger.
        MissingExtraError: its library is not installed.
    """
    return [] if not text else [LOGGERS.make(each) for each in parse_list(text, LOGGERS)]


class Mirror:
    """Tells loggers every number of a run's records: those that are there when it begins, and those that come.

    A record ``epoch/3`` with ``loss`` is the number ``loss`` of the group ``epoch`` at step 3: the last number in the
    key is the step, unless a field ``step`` says another, and a key without a number counts from the order of the file
    (``numbers_of``).
    """

    def __init__(self, run: Run, loggers: Sequence[RunLogger]) -> None:
        self._loggers = list(loggers)
        self._open: list[RunLogger] = []
        self._count = 0
        try:
            for logger in self._loggers:
                self._open.append(logger)
                logger.begin(run)
            for record in run.records:
                self._tell(record)
        except BaseException:
            self.close()
            raise
        run.records.observe(self._tell)

    def close(self) -> None:
        """End the copies; records that come later are not in them."""
        while self._open:
            self._open.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, record: dict[str, Any]) -> None:
        self._count += 1
        for group, step, scalars in numbers_of(record, self._count):
            for logger in self._open:
                logger.log(group, step, scalars)


def numbers_of(record: dict[str, Any], position: int) -> list[tuple[str, int, dict[str, float]]]:
    """The numbers of a record: groups, each with its step and its scalars by name.

    Most records have one group. A list ``rows`` is the course of what the record is about, such as the tasks of a
    stream, a step a row; of a list of numbers in a row, each is told, and their mean.

    >>> numbers_of({"key": "epoch/3", "loss": 0.5, "name": "text"}, 7)
    [('epoch', 3, {'loss': 0.5})]
    >>> numbers_of({"key": "naive/0", "rows": [{"task": "a", "test": [0.5]}, {"task": "b", "test": [0.25, 0.75]}]}, 7)
    [('naive/0', 1, {'test': 0.5, 'test/1': 0.5}), ('naive/0', 2, {'test': 0.5, 'test/1': 0.25, 'test/2': 0.75})]
    """
    found = [(*tag_of(record, position), _scalars(record))]
    rows = record.get("rows")
    courses = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    found += [(record["key"], place, _row_scalars(row)) for place, row in enumerate(courses, start=1)]
    return [(group, step, scalars) for group, step, scalars in found if scalars]


def _row_scalars(row: dict[str, Any]) -> dict[str, float]:
    scalars = _scalars(row)
    for name, values in row.items():
        if isinstance(values, list) and values and all(type(value) in (int, float) for value in values):
            scalars[name] = fmean(values)
            scalars |= {f"{name}/{place}": float(value) for place, value in enumerate(values, start=1)}
    return scalars


def _scalars(record: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in record.items() if type(value) in (int, float) and name != "step"}


_NUMBERED = re.compile(r"(?:(?:step|task)-)?(\d+)")
"""A part of a key that counts: a number, or how growths count their steps and streams their tasks."""


def tag_of(record: dict[str, Any], position: int) -> tuple[str, int]:
    """The group of scalars that a record belongs to, and its step there.

    >>> tag_of({"key": "instance/0/epoch/3"}, 7), tag_of({"key": "even/step-002/seconds"}, 7)
    (('instance/0/epoch', 3), ('even/seconds', 2))
    >>> tag_of({"key": "final", "loss": 0.1}, 7)
    ('final', 7)
    """
    parts = record["key"].split("/")
    numbers = [(index, found[1]) for index, part in enumerate(parts) if (found := _NUMBERED.fullmatch(part))]
    step = position
    if numbers:
        index, text = numbers[-1]
        step = int(text)
        del parts[index]
    if type(record.get("step")) is int:
        step = record["step"]
    return "/".join(parts) or "records", step
