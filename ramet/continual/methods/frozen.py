"""A frozen body with a head for each task: what linear probing makes of a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ramet.continual.methods.head_fitting import fit_head
from ramet.continual.methods.shared_body import SharedBody
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.training import output_of


@dataclass(kw_only=True, eq=False)
class Frozen(SharedBody):
    """Only heads are trained; the body is that of a trained network, or is trained on the first task and then kept.

    What a trained network is worth as it is: nothing is forgotten, and a task costs no more than its head. The body
    sees each image once, unless the recipe changes images.
    """

    name: ClassVar[str] = "frozen"
    takes_shared_head: ClassVar[bool] = False
    forgets_nothing: ClassVar[bool] = True

    def _train(self, task: TaskData, saves: Saves, epochs: int | None = None) -> dict[str, Any]:
        if not self.tasks and not self.template.is_trained:
            return super()._train(task, saves, epochs)
        head, body, seed = self.shared.heads[-1], self.shared.body.eval(), self.training_seed()
        if self.settings.augment is None:
            fit_head(head, body, task.train, self.settings, seed=seed, saves=saves)
            return {}
        of_outputs = self.settings.loss_for(task.train.y)

        def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
            with torch.no_grad():
                x = output_of(body(x))
            return of_outputs(head(x), y)

        train(head, loss, task.train, self.settings, seed=seed, saves=saves)
        return {}
