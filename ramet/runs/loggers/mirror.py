"""A run's records told to loggers, as they are recorded."""

from __future__ import annotations

from collections.abc import Sequence
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
    key is the step, unless a field ``step`` says another, and a key without a number counts from the order of the file.
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
        scalars = {
            name: float(value) for name, value in record.items() if type(value) in (int, float) and name != "step"
        }
        if scalars:
            group, step = tag_of(record, self._count)
            for logger in self._open:
                logger.log(group, step, scalars)


def tag_of(record: dict[str, Any], position: int) -> tuple[str, int]:
    """The group of scalars that a record belongs to, and its step there.

    >>> tag_of({"key": "instance/0/epoch/3"}, 7)
    ('instance/0/epoch', 3)
    >>> tag_of({"key": "final", "loss": 0.1}, 7)
    ('final', 7)
    """
    parts = record["key"].split("/")
    numbers = [index for index, part in enumerate(parts) if part.isdecimal()]
    step = int(parts.pop(numbers[-1])) if numbers else position
    if type(record.get("step")) is int:
        step = record["step"]
    return "/".join(parts) or "records", step
