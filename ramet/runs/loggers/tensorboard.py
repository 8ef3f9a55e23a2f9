"""The numbers of a run as TensorBoard scalars, for those who watch runs there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from ramet.errors import MissingExtraError
from ramet.runs.atomic import writing
from ramet.runs.loggers.base import RunLogger

if TYPE_CHECKING:
    from ramet.runs.directory import Run


class TensorBoardLogger(RunLogger):
    """Scalars in ``tensorboard/`` of the run directory: ``tensorboard --logdir runs``."""

    def __init__(self) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as error:
            raise MissingExtraError("tensorboard", "tensorboard") from error
        self._event, self._summary, self._record_writer = Event, Summary, RecordWriter
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def begin(self, run: Run) -> None:
        """A new file in the place of an old one."""
        # TensorBoard's own writer puts the host's name into the name of the file; this one does not.
        self._path = run.path / "tensorboard" / "events.out.tfevents.ramet"
        with writing(self._path):
            self._path.parent.mkdir(exist_ok=True)
            self._file = open(self._path, "wb")  # noqa: SIM115 (held until close)
        self._writer = self._record_writer(self._file)
        self._write(self._event(wall_time=time.time(), file_version="brain.Event:2"))

    def log(self, group: str, step: int, scalars: Mapping[str, float]) -> None:
        """One event, on the disk before this returns."""
        values = [self._summary.Value(tag=f"{group}/{name}", simple_value=value) for name, value in scalars.items()]
        self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))

    def close(self) -> None:
        """Twice is the same as once."""
        if self._file is not None:
            self._file.close()

    def _write(self, event: Any) -> None:
        assert self._file is not None
        with writing(self._path):
            self._writer.write(event.SerializeToString())
            self._file.flush()
