"""A frozen body with a head for each task: what linear probing makes of a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ramet.continual.methods.shared_body import SharedBody
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.training import evaluating, in_batches


@dataclass(kw_only=True, eq=False)
class Frozen(SharedBody):
    """Only heads are trained; the body is that of a trained network, or is trained on the first task and then kept.

    What a trained network is worth as it is: nothing is forgotten, and a task costs no more than its head. The body
    sees each image once.
    """

    name: ClassVar[str] = "frozen"
    takes_shared_head: ClassVar[bool] = False
    forgets_nothing: ClassVar[bool] = True

    def _train(self, task: TaskData, saves: Saves, epochs: int | None = None) -> dict[str, Any]:
        if not self.tasks and not self.template.is_trained:
            return super()._train(task, saves, epochs)
        head, body, data = self.shared.heads[-1], self.shared.body, task.train
        with evaluating(body):
            seen = torch.cat([body(x) for x, _ in in_batches(data.x, data.y)])
        features = seen.clone()  # what is computed in inference mode could not be trained on

        def loss(indices: Tensor) -> Tensor:
            return cross_entropy(head(features[indices]), data.y[indices])

        train(head, loss, len(data), self.settings, seed=self.training_seed(), saves=saves)
        return {}
