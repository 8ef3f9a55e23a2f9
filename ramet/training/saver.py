"""One saver: the parts of a training by name, saved from time to time, and put back after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from ramet.runs import Checkpoint, pack_state, state_from_bytes, state_to_bytes, unpack_state
from ramet.seeding import generator_states, restore_generators


class SavesCheckpoints(Protocol):
    """Where a training saves itself: ``ramet.runs.Checkpoints`` is one."""

    def save(self, step: int, tensors: dict[str, Tensor], state: Any) -> None:
        """Store tensors and JSON values."""

    def load(self) -> Any:
        """The newest, with ``step``, ``tensors`` and ``state``, or ``None``."""


class SavedPart(Protocol):
    """A part of a training: a module, an optimizer, a guard, or ``Values``."""

    def state_dict(self) -> Any:
        """What a checkpoint must hold."""

    def load_state_dict(self, state: Any) -> Any:
        """Go on from what ``state_dict`` gave."""


class Several(Protocol):
    """The processes that train together, of which the leader alone has checkpoints: ``ramet.execution.Ranks``."""

    size: int

    @property
    def is_leader(self) -> bool:
        """Whether this process has the checkpoints."""

    def tell(self, message: bytes) -> bytes:
        """The leader's message, in every process."""


@dataclass(frozen=True)
class Values:
    """A part that has no ``state_dict`` of its own: how its values are taken, and how they are put back."""

    take: Callable[[], Any]
    put: Callable[[Any], object]

    def state_dict(self) -> Any:
        """The values."""
        return self.take()

    def load_state_dict(self, state: Any) -> None:
        """Put them back."""
        self.put(state)


def global_generators(network: nn.Module) -> Values:
    """Torch's global generators, which layers of the network draw from (dropout has no other)."""
    return Values(lambda: generator_states(network.parameters()), restore_generators)


def contents(log: dict[str, Any]) -> Values:
    """What a dictionary holds, put back into the same dictionary."""

    def put(saved: dict[str, Any]) -> None:
        log.clear()
        log.update(saved)

    return Values(lambda: log, put)


class Saver:
    """Saves the parts of a training, and resumes from them.

    Args:
        checkpoints: Where they go; without, nothing is saved or resumed.
        parts: By name, in the order in which they are put back.
        seconds: How much work may be lost.
        several: The processes that train together; all begin with the leader's bits.

    Example:
        >>> import tempfile, torch
        >>> from ramet.runs import Checkpoints
        >>> folder, layer = tempfile.mkdtemp(), nn.Linear(1, 1)
        >>> Saver(Checkpoints(folder), {"network": layer}).save(3)
        >>> other = nn.Linear(1, 1)
        >>> Saver(Checkpoints(folder), {"network": other}).resume()
        3
        >>> bool(other.weight == layer.weight)
        True
    """

    def __init__(
        self,
        checkpoints: SavesCheckpoints | None,
        parts: Mapping[str, SavedPart],
        *,
        seconds: float = 30.0,
        several: Several | None = None,
    ) -> None:
        self._checkpoints, self._parts, self._seconds = checkpoints, dict(parts), seconds
        self._several = several if several is not None and several.size > 1 else None
        self._saved_at = time.monotonic()

    def resume(self) -> int | None:
        """Put everything back as it was when it was saved last, and give that step; none if it never was."""
        checkpoint = None if self._checkpoints is None else self._checkpoints.load()
        step, state = None, None
        if checkpoint is not None:
            step, state = checkpoint.step, unpack_state(checkpoint.tensors, checkpoint.state)
        if self._several is not None:
            state = self.state() if state is None else state
            message = state_to_bytes((step, state)) if self._several.is_leader else b""
            step, state = state_from_bytes(self._several.tell(message))
        if state is not None:
            for name, part in self._parts.items():
                part.load_state_dict(state[name])
        self._saved_at = time.monotonic()
        return step

    @property
    def is_due(self) -> bool:
        """Whether so much work could be lost that it is time to save."""
        return self._checkpoints is not None and time.monotonic() - self._saved_at >= self._seconds

    def save(self, step: int) -> None:
        """Save now."""
        if self._checkpoints is not None:
            self._checkpoints.save(step, *pack_state(self.state()))
            self._saved_at = time.monotonic()

    def state(self) -> dict[str, Any]:
        """All parts as they are, by name; their tensors are not copied."""
        return {name: part.state_dict() for name, part in self._parts.items()}


def saved_part(checkpoint: Checkpoint, name: str) -> Any:
    """One part of what a ``Saver`` saved, such as the ``network``."""
    return unpack_state(checkpoint.tensors, checkpoint.state)[name]
