"""The numbers of a run's records as TensorBoard scalars, an option for people who watch runs there."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from ramet.errors import MissingExtraError
from ramet.runs.atomic import writing
from ramet.runs.directory import Run


def require_tensorboard() -> None:
    """Refuse early, before a run directory is made, where tensorboard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingExtraError("tensorboard", "tensorboard")


class ScalarMirror:
    """Copies every number of a run's records to ``tensorboard/`` in its directory, as it is recorded.

    The copy is made anew from the records when a run is opened, so that it never holds less or more than they do.
    A record ``epoch/3`` with ``loss`` gives the scalar ``epoch/loss`` at step 3: the last number in the key is the
    step, unless a field ``step`` says another, and a key without a number counts from the order of the file.
    """

    def __init__(self, run: Run) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as error:
            raise MissingExtraError("tensorboard", "tensorboard") from error
        self._event, self._summary = Event, Summary
        self._count = 0
        # TensorBoard's own writer puts the host's name into the name of the file; this one does not.
        self._path = run.path / "tensorboard" / "events.out.tfevents.ramet"
        with writing(self._path):
            self._path.parent.mkdir(exist_ok=True)
            self._file = open(self._path, "wb")  # noqa: SIM115 (held until close)
        self._writer = RecordWriter(self._file)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        for record in run.records:
            self._add(record)
        self._flush()
        run.records.observe(self._follow)

    def close(self) -> None:
        """End the copy; records that come later are not in it."""
        self._file.close()

    def _follow(self, record: dict[str, Any]) -> None:
        if not self._file.closed:
            self._add(record)
            self._flush()

    def _add(self, record: dict[str, Any]) -> None:
        self._count += 1
        values = {name: value for name, value in record.items() if type(value) in (int, float) and name != "step"}
        if not values:
            return
        group, step = tag_of(record, self._count)
        summary = self._summary(
            value=[self._summary.Value(tag=f"{group}/{name}", simple_value=value) for name, value in values.items()]
        )
        self._write(self._event(wall_time=time.time(), step=step, summary=summary))

    def _write(self, event: Any) -> None:
        with writing(self._path):
            self._writer.write(event.SerializeToString())

    def _flush(self) -> None:
        with writing(self._path):
            self._file.flush()


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
