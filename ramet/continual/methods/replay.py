"""Replay: a few samples of each earlier task are kept, and trained along with the new task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ramet.continual.methods.shared_body import SharedBody, rows
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed


@dataclass(kw_only=True, eq=False)
class Replay(SharedBody):
    """Experience replay from a memory of fixed size, shared evenly among the tasks.

    Each mini-batch of the new task is joined by as many samples of the memory. The memory counts as stored: it is a
    copy of data that are otherwise gone.

    Args:
        memory: Samples kept in all.

    Raises:
        ConfigError: The memory is empty.

    Reference: Chaudhry et al., On tiny episodic memories in continual learning, 2019.
    """

    name: ClassVar[str] = "replay"
    takes_shared_head: ClassVar[bool] = True
    memory: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory < 1:
            raise ConfigError(f"memory must be at least 1 sample, but got {self.memory}.")

    def _begin(self) -> None:
        super()._begin()
        channels, height, width = self.skeleton.shape_before(0)
        self._x = torch.zeros(0, channels, height, width, device=self.device)
        self._y = torch.zeros(0, dtype=torch.long, device=self.device)
        self._places = torch.zeros(0, dtype=torch.long, device=self.device)

    def _train(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place, data = len(self.tasks), task.train

        def loss(indices: Tensor) -> Tensor:
            x, y, places = data.x[indices], data.y[indices], torch.full_like(data.y[indices], place)
            if len(self._y):
                # The global generator: a training seeds it, and its checkpoints hold it.
                drawn = torch.randint(len(self._y), (len(indices),))
                x = torch.cat([x, self._x[drawn]])
                y, places = torch.cat([y, self._y[drawn]]), torch.cat([places, self._places[drawn]])
            return self.mixture_loss(x, y, places)

        train(self.shared, loss, len(data), self.settings, seed=self.training_seed(), saves=saves)
        self._remember(task)
        return {"memory": len(self._y)}

    def _remember(self, task: TaskData) -> None:
        """Give each task its share of the memory: earlier ones lose samples, the new one comes in."""
        place = len(self.tasks)
        share = max(1, self.memory // (place + 1))
        kept = [(self._places == old).nonzero()[:, 0][:share] for old in range(place)]
        chosen = rows(derive_seed(self.seed, "memory", place), len(task.train), share)
        # Shuffled once, so that dropping the last samples of a task later is dropping at random.
        order = torch.randperm(
            len(chosen), generator=torch.Generator().manual_seed(derive_seed(self.seed, "order", place))
        )
        chosen = chosen[order]
        old = torch.cat(kept) if kept else torch.zeros(0, dtype=torch.long)
        self._x = torch.cat([self._x[old], task.train.x[chosen]])
        self._y = torch.cat([self._y[old], task.train.y[chosen]])
        self._places = torch.cat([self._places[old], torch.full_like(task.train.y[chosen], place)])

    def state(self) -> dict[str, Any]:
        """The weights and the memory."""
        memory = {"x": self._x.clone(), "y": self._y.clone(), "places": self._places.clone()}
        return {**super().state(), "memory": memory}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        super().load_state(state)
        memory = {name: tensor.to(self.device) for name, tensor in state["memory"].items()}
        self._x, self._y, self._places = memory["x"], memory["y"], memory["places"]
