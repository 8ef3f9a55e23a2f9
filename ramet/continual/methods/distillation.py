"""Learning without forgetting: earlier heads are held to what they said of the new task's images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from ramet.continual.methods.shared_body import SharedBody
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed


def distillation_loss(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    r"""The cross-entropy between softened predictions, :math:`-\sum_c \hat y_c \log y_c`, Eq. 2 and 3 of the paper.

    Raising probabilities to the power 1 / T and normalising them is dividing the logits by T.

    Args:
        logits: What the head says now, [batch, classes].
        targets: What it said before, logits as well.
        temperature: T; above 1 it gives small probabilities more weight.
    """
    expected = (targets / temperature).softmax(1)
    return -(expected * log_softmax(logits / temperature, 1)).sum(1).mean()


@dataclass(kw_only=True, eq=False)
class Distillation(SharedBody):
    """Learning without forgetting (LwF): no data are kept; the new images stand for the old ones.

    Before a task is learned, all earlier heads are asked about its images. A new head is then warmed up alone, and at
    last everything is trained together, the earlier heads on their own former answers.

    Args:
        strength: Lambda of Eq. 4, the weight of the earlier heads; the paper's 1.
        temperature: T of Eq. 3; the paper's 2.
        warm_up: The share of the epochs in which the new head is trained alone, once there is an earlier task. Departs
            from the paper, which warms up until convergence: the budget of training is the same for all methods.

    Raises:
        ConfigError: A number is out of its range.

    Reference: Li and Hoiem, Learning without forgetting, 2017.
    """

    name: ClassVar[str] = "distillation"
    takes_shared_head: ClassVar[bool] = True
    strength: float = 1.0
    temperature: float = 2.0
    warm_up: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strength < 0 or self.temperature <= 0 or not 0 <= self.warm_up < 1:
            raise ConfigError(
                "strength must not be negative, temperature must be positive and warm_up must lie in [0, 1), but got "
                f"{self.strength}, {self.temperature} and {self.warm_up}."
            )

    def _train(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place, data = len(self.tasks), task.train
        with torch.no_grad():
            features = self.shared.eval().body(data.x)
            # A head that all tasks have gives one answer, however many tasks there were.
            old_heads = range(min(place, len(self.shared.heads)))
            answers = [self.shared.heads[old](features) for old in old_heads]

        def loss(indices: Tensor) -> Tensor:
            return self.classification_loss(data, place, indices)

        def loss_with_answers(indices: Tensor) -> Tensor:
            features = self.shared.body(data.x[indices])
            total = torch.nn.functional.cross_entropy(self.shared.head(place)(features), data.y[indices])
            for old, answer in enumerate(answers):
                held = distillation_loss(self.shared.heads[old](features), answer[indices], self.temperature)
                total = total + self.strength * held
            return total

        settings, seed = self.settings, self.training_seed()
        alone = min(round(self.warm_up * settings.epochs), settings.epochs - 1) if place else 0
        if self.shared.one_head:
            alone = 0  # there is no new head to warm up
        if alone:
            new_head = f"heads.{place}."
            train(
                self.shared,
                loss,
                len(data),
                replace(settings, epochs=alone),
                seed=derive_seed(seed, "warm-up"),
                rate=lambda name: float(name.startswith(new_head)),
                frozen=[self.shared.body],
                saves=saves,
                phase="warm-up",
            )
        rest = replace(settings, epochs=settings.epochs - alone)
        train(self.shared, loss_with_answers, len(data), rest, seed=seed, saves=saves)
        return {}
