"""Learning without forgetting: earlier heads are held to what they said of the new task's images."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from ramet.continual.methods.shared_body import Minibatch, Part, SharedBody, SharedNetwork
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.seeding import derive_seed
from ramet.training import in_batches


def distillation_loss(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """The cross-entropy between softened predictions, minus the sum of y'_c log y_c over classes (Eqs. 2 and 3).

    Raising probabilities to the power 1 / T and normalising them is dividing the logits by T, the temperature; above 1
    it gives small probabilities more weight. ``targets`` are what the head said before, logits as well.
    """
    expected = (targets / temperature).softmax(1)
    return -(expected * log_softmax(logits / temperature, 1)).sum(1).mean()


class FormerAnswers(Part):
    """Earlier heads are held to what they said of the new task's images before it was learned.

    Images that an augmentation changes anew in each step are shown to a copy of the former network; others to the
    network itself, once.
    """

    def __init__(self, strength: float, temperature: float, *, is_augmented: bool = False) -> None:
        self._strength, self._temperature, self._is_augmented = strength, temperature, is_augmented

    @torch.no_grad()
    def prepare(self, shared: SharedNetwork, place: int, data: Split) -> None:
        """Ask all earlier heads, or keep them to be asked."""
        # A head that all tasks have gives one answer, however many tasks there were.
        self._num_heads = min(place, len(shared.heads))
        if self._is_augmented:
            self._former = copy.deepcopy(shared).eval()
        else:
            shared.eval()
            parts = [self._asked(shared, x) for x, _ in in_batches(data.x, data.y)]
            self._answers = [torch.cat(answers) for answers in zip(*parts, strict=True)]

    def _asked(self, network: SharedNetwork, x: Tensor) -> list[Tensor]:
        features = network.features(x) if self._num_heads else x
        return [head(features) for head in network.heads[: self._num_heads]]

    def with_terms(self, total: Tensor, shared: SharedNetwork, features: Tensor, batch: Minibatch) -> Tensor:
        """The loss, and how far the earlier heads are from their answers."""
        if self._is_augmented:
            with torch.no_grad():
                answers = self._asked(self._former, batch.x)
        else:
            answers = [answer[batch.indices] for answer in self._answers]
        for head, answer in zip(shared.heads, answers, strict=False):
            total = total + self._strength * distillation_loss(head(features), answer, self._temperature)
        return total


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

    Reference: Li and Hoiem, Learning without forgetting, 2017.
    """

    name: ClassVar[str] = "distillation"
    needs_classes: ClassVar[str] = "former answers are shares of classes"
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

    def make_parts(self) -> list[Part]:
        """The earlier heads' answers."""
        return [FormerAnswers(self.strength, self.temperature, is_augmented=self.settings.augment is not None)]

    def _train(self, task: TaskData, saves: Saves, epochs: int | None = None) -> dict[str, Any]:
        place, epochs = len(self.tasks), self.settings.epochs
        alone = min(round(self.warm_up * epochs), epochs - 1) if place else 0
        if self.shared.one_head:
            alone = 0  # there is no new head to warm up
        if alone:
            new_head = f"heads.{place}."
            train(
                self.shared,
                *classification(partial(self.shared, task=place), task.train, self.settings),
                replace(self.settings, epochs=alone),
                seed=derive_seed(self.training_seed(), "warm-up"),
                rate=lambda name: float(name.startswith(new_head)),
                frozen=[self.shared.body],
                saves=saves,
                phase="warm-up",
            )
        return super()._train(task, saves, epochs - alone)
