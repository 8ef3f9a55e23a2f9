"""Run directories: configuration, environment, records, checkpoints and a lock; see docs/runs.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front
from ramet.runs.checkpoints import Checkpoint, Checkpoints
from ramet.runs.directory import Run, read_config, remove_run
from ramet.runs.encoding import FORMAT_VERSION, JSON
from ramet.runs.environment import describe_environment
from ramet.runs.identity import differences
from ramet.runs.records import Records, read_records

if TYPE_CHECKING:  # these need torch, which readers of records must not wait for
    from ramet.runs.packing import pack_state, state_from_bytes, state_to_bytes, unpack_state

__all__ = ["FORMAT_VERSION", "JSON", "Checkpoint", "Checkpoints", "Records", "Run"]
__all__ += ["describe_environment", "differences", "pack_state", "read_config", "read_records", "remove_run"]
__all__ += ["state_from_bytes", "state_to_bytes", "unpack_state"]

__getattr__ = lazy_front(__name__)
