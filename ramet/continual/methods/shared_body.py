"""One body that all tasks share, with a head for each or for all: naive, joint, elastic, distillation, replay."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.continual.method import Method, detached
from ramet.continual.networks.skeletons import seeded
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves
from ramet.costs import count_parameters
from ramet.data import Split
from ramet.seeding import derive_seed


class SharedNetwork(nn.Module):
    """The shared layers, and the head of each task, or the one that all have.

    Args:
        layers: The body.
        one_head: Whether there is one head for all tasks.
    """

    def __init__(self, layers: Sequence[nn.Module], one_head: bool = False) -> None:
        super().__init__()
        self.one_head = one_head
        self.body = nn.Sequential(*layers)
        self.heads = nn.ModuleList()

    def forward(self, x: Tensor, task: int) -> Tensor:
        """The logits of one task, [batch, classes]."""
        logits: Tensor = self.head(task)(self.body(x))
        return logits

    def head(self, task: int) -> nn.Module:
        """The head of a task."""
        return self.heads[0 if self.one_head else task]


@dataclass(kw_only=True, eq=False)
class SharedBody(Method):
    """A method whose tasks share all layers, and perhaps the head; sub-classes say how the body is trained."""

    def _begin(self) -> None:
        self.shared = SharedNetwork(self.skeleton.make_body(self.seed, "shared"), self.skeleton.shared_head)
        self.shared.to(self.device)

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        self._add_head(task.info.num_classes, len(self.tasks))
        return self._train(task, earlier, saves)

    @abstractmethod
    def _train(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        """Train the body and the new head, which is the last one."""

    def network(self, name: str) -> nn.Module:
        """A copy of the body with the task's head."""
        place = self.place(name)
        return copy.deepcopy(self.skeleton.assemble(list(self.shared.body), self.shared.head(place))).eval()

    def num_parameters(self) -> int:
        """The body and all heads."""
        return count_parameters(self.shared)

    def state(self) -> dict[str, Any]:
        """The weights."""
        return {"network": detached(self.shared)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        for task in self.tasks[:1] if self.shared.one_head else self.tasks:
            self.shared.heads.append(self.skeleton.make_head(task.num_classes).to(self.device))
        self.shared.load_state_dict(state["network"])
        self.shared.eval()

    def training_seed(self) -> int:
        """The seed of the present task's training."""
        return derive_seed(self.seed, "task", len(self.tasks))

    def classification_loss(self, split: Split, place: int, indices: Tensor) -> Tensor:
        """The cross-entropy of one task's head on a mini-batch."""
        return cross_entropy(self.shared(split.x[indices], place), split.y[indices])

    def mixture_loss(self, x: Tensor, y: Tensor, places: Tensor) -> Tensor:
        """The cross-entropy of samples of several tasks, each under the head of its own; the mean over samples."""
        features: Tensor = self.shared.body(x)
        total: Tensor = features.new_zeros(())
        for place in sorted(set(places.tolist())):
            own = places == place
            total = total + cross_entropy(self.shared.head(place)(features[own]), y[own], reduction="sum")
        return total / len(y)

    def _add_head(self, num_classes: int, place: int) -> None:
        if self.shared.one_head and place:
            return
        head = seeded(lambda: self.skeleton.make_head(num_classes), self.seed, "head", place)
        self.shared.heads.append(head.to(self.device))


def rows(generator_seed: int, num_rows: int, count: int) -> Tensor:
    """That many different rows, drawn by the seed and sorted; all of them if there are fewer."""
    generator = torch.Generator().manual_seed(generator_seed)
    return torch.randperm(num_rows, generator=generator)[:count].sort().values
