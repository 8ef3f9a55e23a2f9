"""The seam of loggers: what a mirror of a run's records tells them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ramet.runs.directory import Run


class RunLogger(ABC):
    """Copies numbers to a tool of others; it has no influence on the run.

    The library of the tool is imported when the logger is made, before a run directory is: a missing one is refused
    early, with a ``MissingExtraError``. ``begin`` comes once, then ``log`` for every record with numbers, those that an
    interrupted run wrote before first, and ``close`` at the end, also after a failure.
    """

    @abstractmethod
    def begin(self, run: Run) -> None:
        """Open the copy of a run; an earlier copy in the run's directory is dropped, because all of it comes again."""

    @abstractmethod
    def log(self, group: str, step: int, scalars: Mapping[str, float]) -> None:
        """Numbers of one record: the group is its key without the number that is the step."""

    @abstractmethod
    def close(self) -> None:
        """End the copy."""
