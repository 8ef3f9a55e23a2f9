"""Joint training: all tasks so far at once. It needs all data, and is what the other methods try to come near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ramet.continual.methods.shared_body import SharedBody, check_targets
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.data import Split


@dataclass(kw_only=True, eq=False)
class Joint(SharedBody):
    """The upper bound of shared layers: at each task a fresh network learns all tasks so far together.

    A mini-batch holds samples of any of the tasks, each of which goes through the head of its own. Only the scenario
    ``all`` allows it.
    """

    name: ClassVar[str] = "joint"
    needs_earlier: ClassVar[bool] = True
    keeps_start: ClassVar[bool] = True

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        self._begin()
        everything = [*earlier, task]
        for place, part in enumerate(everything):
            self._add_head(part.info.num_classes, place)
        x, y = (torch.cat([getattr(part.train, name) for part in everything]) for name in "xy")
        sizes = torch.tensor([len(part.train) for part in everything])
        places = torch.arange(len(everything)).repeat_interleave(sizes).to(y.device)
        are_numbers = y.is_floating_point()

        def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
            check_targets(y, are_numbers)
            return self.mixture_loss(self.shared.features(x), y, places[indices])

        train(
            self.shared,
            loss,
            Split(x, y),
            self.settings,
            seed=self.training_seed(),
            called=self.shared.body,
            saves=saves,
        )
        return {}
