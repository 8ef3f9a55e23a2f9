"""Sequential fine-tuning: each task is trained on top of the last, and nothing is done against forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ramet.continual.methods.shared_body import SharedBody
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train


@dataclass(kw_only=True, eq=False)
class Naive(SharedBody):
    """The lower bound: shared layers, a head for each task, plain training."""

    name: ClassVar[str] = "naive"
    takes_shared_head: ClassVar[bool] = True

    def _train(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place, data = len(self.tasks), task.train
        train(
            self.shared,
            lambda indices: self.classification_loss(data, place, indices),
            len(data),
            self.settings,
            seed=self.training_seed(),
            saves=saves,
        )
        return {}
