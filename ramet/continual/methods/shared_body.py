"""One body that all tasks share, with a head for each or for all, and parts that keep it from forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ramet.continual.method import Method
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.template import seeded
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Loss, Saves, train
from ramet.costs import count_parameters
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.guards import Guard, chain
from ramet.seeding import derive_seed
from ramet.training import output_of


class SharedNetwork(nn.Module):
    """The shared layers, and the head of each task, or the one that all have."""

    def __init__(self, body: nn.Module, one_head: bool = False) -> None:
        super().__init__()
        self.one_head = one_head
        self.body = body
        self.heads = nn.ModuleList()

    def forward(self, x: Tensor, task: int) -> Tensor:
        """The logits of one task, [batch, classes]."""
        logits: Tensor = self.head(task)(self.features(x))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """What heads take, [batch, features]; a body may give it as its ``logits``, beside other things."""
        return output_of(self.body(x))

    def head(self, task: int) -> nn.Module:
        """The head of a task."""
        return self.heads[0 if self.one_head else task]


class TaskView(nn.Module):
    """A body and a head that are others', one after the other."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the head's task, [batch, classes]."""
        logits: Tensor = self.head(output_of(self.body(x)))
        return logits


Samples = tuple[Tensor, Tensor, Tensor]
"""Images, their labels, and the places of the tasks that they are of."""


class Minibatch(NamedTuple):
    """The present task's samples in a mini-batch: what the recipe made of the images, and their rows in the data."""

    x: Tensor
    indices: Tensor


class Part:
    """What a shared body does against forgetting; each of its moments does nothing unless a part says otherwise.

    Attributes:
        name: Under which its state is kept, unlike that of any other part; empty if it has none.
        guard: What keeps the steps of a training from disturbing earlier tasks.
        rehearses: Whether it joins samples of earlier tasks to mini-batches.
    """

    name: ClassVar[str] = ""
    guard: Guard | None = None
    rehearses: ClassVar[bool] = False

    def prepare(self, shared: SharedNetwork, place: int, data: Split) -> None:
        """A task, whose head is there already, is about to be learned."""

    def rehearse(self, samples: Samples) -> Samples:
        """A mini-batch, joined by samples of earlier tasks."""
        return samples

    def with_terms(self, total: Tensor, shared: SharedNetwork, features: Tensor, batch: Minibatch) -> Tensor:
        """The loss of a mini-batch with terms of the part's own, from the features of the present task's samples."""
        return total

    def finish(self, shared: SharedNetwork, place: int, data: Split) -> dict[str, Any]:
        """A task was learned: remember what the next needs, and say what is worth a note."""
        return {}

    def state(self) -> Any:
        """What is remembered; None if nothing is."""
        return None

    def load_state(self, state: Any, device: str) -> None:
        """The inverse of ``state``."""


@dataclass(kw_only=True, eq=False)
class SharedBody(Method):
    """A method whose tasks share all layers, and perhaps the head; sub-classes say which parts protect them."""

    takes_shared_head: ClassVar[bool] = True
    needs_chain: ClassVar[str] = ""
    needs_classes: ClassVar[str] = ""

    def make_parts(self) -> list[Part]:
        """The parts of a method that has learned nothing."""
        return []

    def _begin(self) -> None:
        self.shared = SharedNetwork(self.template.make_features(self.seed, "shared"), self.template.shared_head)
        self.shared.to(self.device)
        self.parts = self.make_parts()

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        self._add_head(task.info.num_classes, len(self.tasks))
        return self._train(task, saves)

    def _train(self, task: TaskData, saves: Saves, epochs: int | None = None) -> dict[str, Any]:
        """Train the body and the new head, which is the last one, for the settings' epochs or for others."""
        place, data = len(self.tasks), task.train
        settings = self.settings if epochs is None else replace(self.settings, epochs=epochs)
        for part in self.parts:
            part.prepare(self.shared, place, data)
        guards = [part.guard for part in self.parts if part.guard is not None]
        guard = chain(*guards) if guards else None
        loss, seed = self._loss(data, place), self.training_seed()
        train(self.shared, loss, data, settings, seed=seed, guard=guard, called=self.shared.body, saves=saves)
        notes: dict[str, Any] = {}
        for part in self.parts:
            notes |= part.finish(self.shared, place, data)
        return notes

    def _loss(self, data: Split, place: int) -> Loss:
        """The loss of a task's mini-batches, with what the parts have to add."""
        rehearses = any(part.rehearses for part in self.parts)
        of_outputs, are_numbers = self.settings.loss_for(data.y), data.y.is_floating_point()

        def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
            own = Minibatch(x, indices)
            if rehearses:
                check_targets(y, are_numbers)
            places = torch.full_like(indices, place)
            for part in self.parts:
                x, y, places = part.rehearse((x, y, places))
            features = self.shared.features(x)
            if rehearses:
                total, features = self.mixture_loss(features, y, places), features[: len(indices)]
            else:
                total = of_outputs(self.shared.head(place)(features), y)
            for part in self.parts:
                total = part.with_terms(total, self.shared, features, own)
            return total

        return loss

    def mixture_loss(self, features: Tensor, y: Tensor, places: Tensor) -> Tensor:
        """The recipe's loss of samples of several tasks, each under the head of its own; the mean over samples."""
        of_outputs, total = self.settings.loss_for(y), features.new_zeros(())
        for place in sorted(set(places.tolist())):
            own = places == place
            total = total + of_outputs(self.shared.head(place)(features[own]), y[own]) * int(own.sum())
        return total / len(y)

    def body_of(self, place: int) -> nn.Module:
        """The body as a task uses it, which is the shared one unless a method says otherwise."""
        return self.shared.body

    def network(self, name: str) -> nn.Module:
        """A copy of the body with the task's head."""
        place = self.place(name)
        return self.template.joined(self.body_of(place), self.shared.head(place)).eval()

    def view(self, name: str) -> nn.Module:
        """The body itself with the task's head."""
        place = self.place(name)
        return TaskView(self.body_of(place), self.shared.head(place)).eval()

    def num_parameters(self) -> int:
        """The body and all heads."""
        return count_parameters(self.shared)

    def state(self) -> dict[str, Any]:
        """The weights, and what the parts remember."""
        remembered = {part.name: part.state() for part in self.parts}
        return {"network": copied(self.shared)} | {name: state for name, state in remembered.items() if name}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        for task in self.tasks[:1] if self.shared.one_head else self.tasks:
            self.shared.heads.append(self.template.make_head(task.num_classes).to(self.device))
        self.shared.load_state_dict(state["network"])
        self.shared.eval()
        self.parts = self.make_parts()
        for part in self.parts:
            if state.get(part.name):
                part.load_state(state[part.name], self.device)

    def training_seed(self) -> int:
        """The seed of the present task's training."""
        return derive_seed(self.seed, "task", len(self.tasks))

    def _add_head(self, num_classes: int, place: int) -> None:
        if self.shared.one_head and place:
            return
        head = seeded(lambda: self.template.make_head(num_classes), self.seed, "head", place)
        self.shared.heads.append(head.to(self.device))


def check_targets(y: Tensor, are_numbers: bool) -> None:
    """Refuse augmentations that mix targets, such as mixup, where a mini-batch has samples of several tasks.

    Targets that are numbers in the data stay what they are.
    """
    if y.is_floating_point() and not are_numbers:
        raise ConfigError("tasks that are trained together need their own classes, but the augmentation mixes them.")


def rows(generator_seed: int, num_rows: int, count: int) -> Tensor:
    """That many different rows, drawn by the seed and sorted; all of them if there are fewer."""
    generator = torch.Generator().manual_seed(generator_seed)
    return torch.randperm(num_rows, generator=generator)[:count].sort().values
