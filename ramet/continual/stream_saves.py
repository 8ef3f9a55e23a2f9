"""Where a stream saves itself between its tasks: the joint network in checkpoints, each measured row once."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ramet.continual.joint import JointNetwork
from ramet.errors import ConfigError
from ramet.runs import Checkpoint, Checkpoints, differences, pack_state, unpack_state
from ramet.runs.appended import AppendedList
from ramet.training import Recipe

_logger = logging.getLogger(__name__)

MOST_TIME = 0.1
"""The share of the time that saving may take: a network that grows with every task takes longer and longer to save."""

Rows = list[dict[str, Any]]


class StreamSaves:
    """The saves of one stream; without a folder there are none.

    Args:
        folder: Where they go.
        seconds: The least time between two of them; with 0 there is one after each task.
        identity: Of the run that the folder is a part of; checkpoints of others are refused.
    """

    def __init__(self, folder: Path | None, seconds: float, identity: str | None) -> None:
        self._checkpoints = None if folder is None else Checkpoints(folder, identity=identity)
        self._rows = None if folder is None else AppendedList(folder / "rows.jsonl")
        self._seconds = seconds
        self._saved_at, self._took = time.monotonic(), 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next one."""
        pause = max(self._seconds, self._took / MOST_TIME) if self._seconds else 0.0
        return self._checkpoints is not None and time.monotonic() - self._saved_at >= pause

    def save(self, network: JointNetwork, rows: Sequence[dict[str, Any]]) -> None:
        """Store the network, and those of the rows that are new; the rows before them are what was saved last."""
        if self._checkpoints is None or self._rows is None:
            return
        started = time.monotonic()
        self._rows.extend([_packed(row) for row in rows[len(self._rows) :]])
        tensors, packed = network.snapshot()
        self._checkpoints.save(len(rows), tensors, {"appended": self._rows.mark, "network": packed})
        self._saved_at = time.monotonic()
        self._took = self._saved_at - started

    def resume(self, fresh: JointNetwork) -> Rows:
        """Put a network where the last save left it; gives the rows until then, none if nothing was saved.

        Raises:
            ConfigError: The saves are of a stream with other arguments.
        """
        checkpoint = None if self._checkpoints is None else self._checkpoints.load()
        if self._checkpoints is None or self._rows is None or checkpoint is None:
            return []
        method, folder = fresh.method, self._checkpoints.folder
        stored = unpack_state(checkpoint.tensors, checkpoint.state["network"])
        methods = {method.source or method.name: type(method)}
        template, packed = method.template, checkpoint.state["network"]
        is_same = template.is_described_by(stored["skeleton"])
        if is_same:
            began = JointNetwork.from_snapshot(checkpoint.tensors, packed, methods, template=template)
        if not is_same or _arguments(fresh) != _arguments(began):
            raise ConfigError(f"a stream goes on with the arguments it began with, but {folder} began with others.")
        rows = _rows_of(checkpoint, self._rows)
        if rows is None:
            _logger.warning("The rows of the stream in %s are not whole; it starts anew.", folder)
            return []
        method.tasks = began.method.tasks
        method.load_state(stored["state"])
        return rows


def _packed(row: dict[str, Any]) -> Any:
    tensors, packed = pack_state(row)
    if tensors:
        raise TypeError(f"what is noted of a task is JSON, but {next(iter(tensors))} is a tensor.")
    return packed


def _rows_of(checkpoint: Checkpoint, appended: AppendedList) -> Rows | None:
    """The rows up to a checkpoint; None if they are damaged."""
    if "rows" in checkpoint.state:  # those of earlier versions are in the checkpoint itself
        rows: Rows = unpack_state(checkpoint.tensors, checkpoint.state["rows"])["rows"]
        return rows
    found = appended.load(checkpoint.state["appended"])
    return None if found is None else [unpack_state({}, row) for row in found]


def _arguments(joint: JointNetwork) -> tuple[Any, ...]:
    # The recipe by what is not at the defaults: what is read back is of its base class, or of an earlier version.
    method, functions = joint.method, joint.functions
    recipe = differences(method.settings, defaults_of=Recipe)
    for name in ("metric", *functions):  # nothing that is learned depends on a metric; functions are known by name
        recipe.pop(name, None)
    return method.name, method.options, recipe, functions, method.seed
