"""Replay: a few samples of each earlier task are kept, and trained along with the new task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ramet.continual.methods.shared_body import Part, Samples, SharedBody, SharedNetwork, rows
from ramet.continual.networks.keeping import copied
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.seeding import derive_seed


class Rehearsal(Part):
    """A memory of fixed size, shared evenly among tasks, of which each mini-batch gets as many samples as it has."""

    name: ClassVar[str] = "memory"
    rehearses: ClassVar[bool] = True

    def __init__(self, memory: int, input_shape: tuple[int, ...], seed: int, device: str) -> None:
        self._size, self._seed = memory, seed
        self._x = torch.zeros(0, *input_shape, device=device)
        self._y = torch.zeros(0, dtype=torch.long, device=device)
        self._places = self._y.clone()

    def rehearse(self, samples: Samples) -> Samples:
        """The mini-batch, and as many samples of the memory."""
        x, y, places = samples
        if not len(self._y):
            return samples
        # The global generator: a training seeds it, and its checkpoints hold it.
        drawn = torch.randint(len(self._y), (len(y),))
        return torch.cat([x, self._x[drawn]]), torch.cat([y, self._y[drawn]]), torch.cat([places, self._places[drawn]])

    def finish(self, shared: SharedNetwork, place: int, data: Split) -> dict[str, Any]:
        """Give each task its share of the memory: earlier ones lose samples, the new one comes in."""
        share = max(1, self._size // (place + 1))
        kept = [(self._places == old).nonzero()[:, 0][:share] for old in range(place)]
        chosen = rows(derive_seed(self._seed, "memory", place), len(data), share)
        # Shuffled once, so that dropping the last samples of a task later is dropping at random.
        generator = torch.Generator().manual_seed(derive_seed(self._seed, "order", place))
        chosen = chosen[torch.randperm(len(chosen), generator=generator)]
        old = torch.cat(kept) if kept else torch.zeros(0, dtype=torch.long)
        # A memory without samples does not know yet what inputs and targets are: vectors, numbers, classes of tokens.
        self._x = torch.cat([self._x[old], data.x[chosen]]) if len(old) else data.x[chosen]
        self._y = torch.cat([self._y[old], data.y[chosen]]) if len(old) else data.y[chosen]
        own = torch.full((len(chosen),), place, dtype=torch.long, device=self._places.device)
        self._places = torch.cat([self._places[old], own])
        return {"memory": len(self._y)}

    def state(self) -> Any:
        """The samples."""
        return copied({"x": self._x, "y": self._y, "places": self._places})

    def load_state(self, state: Any, device: str) -> None:
        """The inverse of ``state``."""
        self._x, self._y, self._places = (state[name].to(device) for name in ("x", "y", "places"))


@dataclass(kw_only=True, eq=False)
class Replay(SharedBody):
    """Experience replay from a memory of fixed size, shared evenly among the tasks.

    Each mini-batch of the new task is joined by as many samples of the memory. The memory counts as stored: it is a
    copy of data that are otherwise gone.

    Args:
        memory: Samples kept in all.

    Reference: Chaudhry et al., On tiny episodic memories in continual learning, 2019.
    """

    name: ClassVar[str] = "replay"
    memory: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory < 1:
            raise ConfigError(f"memory must be at least 1 sample, but got {self.memory}.")

    def make_parts(self) -> list[Part]:
        """The memory."""
        return [Rehearsal(self.memory, self.template.input_shape, self.seed, self.device)]
