"""PackNet: each task gets the weights that earlier tasks could do without, and prunes its own for the next."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.continual.methods.shared_body import SharedBody
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.matrices import matrices
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Held, Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed

MAX_TASKS = 255


@dataclass(kw_only=True, eq=False)
class PackNet(SharedBody):
    """Iterative pruning: train the free weights, prune a share of them by magnitude, train the rest again, keep them.

    Task k uses the weights of tasks 1 to k and no other, so that later tasks never change it. Biases and batch norm
    belong to the first task, as in the paper, and so does all of a module that is no matrix of a layer. Who owns a
    weight is one byte, which counts as stored.

    Args:
        prune: The share of a task's new weights that is set free again, in each layer; 0.5 and 0.75 in the paper.
        retrain: The share of the epochs that comes after the pruning; the paper's is a third.

    Raises:
        ConfigError: A share is out of its range, or there are more than 255 tasks.

    Reference: Mallya and Lazebnik, PackNet: adding multiple tasks to a single network by iterative pruning, 2018.
    """

    name: ClassVar[str] = "packnet"
    takes_shared_head: ClassVar[bool] = False
    forgets_nothing: ClassVar[bool] = True
    prune: float = 0.75
    retrain: float = 1 / 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.prune < 1 or not 0 < self.retrain < 1:
            raise ConfigError(
                f"prune must lie in [0, 1) and retrain between 0 and 1, but got {self.prune} and {self.retrain}."
            )

    def _begin(self) -> None:
        super()._begin()
        # 0 is free, k belongs to the k-th task; a tensor for each layer, of the shape of its weights.
        self._owners = [torch.zeros_like(weights, dtype=torch.uint8) for weights in self._weights]

    @property
    def _weights(self) -> list[nn.Parameter]:
        """What is dealt out: the matrices of the shared body."""
        return list(matrices(self.shared.body).values())

    def _train(self, task: TaskData, saves: Saves, epochs: int | None = None) -> dict[str, Any]:
        place = len(self.tasks)
        if place >= MAX_TASKS:
            raise ConfigError(f"packnet takes at most {MAX_TASKS} tasks, but got one more.")
        first = max(1, round(self.settings.epochs * (1 - self.retrain)))
        second = max(1, self.settings.epochs - first)
        self._fit(task, first, self._held(place), saves, "train")
        with torch.no_grad():
            for weights, owner in zip(self._weights, self._owners, strict=True):
                kept = largest(weights, owner == 0, 1 - self.prune)
                owner[kept] = place + 1
                weights[owner == 0] = 0.0
        self._fit(task, second, self._held(place, retrain=True), saves, "retrain")
        free = sum(int((owner == 0).sum()) for owner in self._owners)
        total = sum(owner.numel() for owner in self._owners)
        return {"free_share": free / total}

    def _fit(self, task: TaskData, epochs: int, held: list[Held], saves: Saves, phase: str) -> None:
        place = len(self.tasks)
        dealt = {f"body.{name}" for name in matrices(self.shared.body)}
        train(
            self.shared,
            *classification(partial(self.shared, task=place), task.train, self.settings),
            replace(self.settings, epochs=epochs),
            seed=derive_seed(self.training_seed(), phase),
            rate=lambda name: float(place == 0 or name in dealt or name.startswith("heads.")),
            frozen=[self.shared.body] if place else [],
            held=held,
            saves=saves,
            phase=phase,
        )

    def _held(self, place: int, *, retrain: bool = False) -> list[Held]:
        """What must not move: the weights of earlier tasks, and after the pruning those that are free again."""
        held = []
        for weights, owner in zip(self._weights, self._owners, strict=True):
            mask = (owner != place + 1) if retrain else (owner != 0)
            held.append(Held(weights, mask))
        return held

    def body_of(self, place: int) -> nn.Module:
        """A copy with the task's weights and those of earlier tasks; all others are zero."""
        body = copy.deepcopy(self.shared.body)
        with torch.no_grad():
            for weights, owner in zip(matrices(body).values(), self._owners, strict=True):
                weights[(owner == 0) | (owner > place + 1)] = 0.0
        return body

    def state(self) -> dict[str, Any]:
        """The weights, and who owns each."""
        return {**super().state(), "owners": copied(self._owners)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        super().load_state(state)
        self._owners = copied(state["owners"], self.device)

    def units(self) -> dict[str, Any]:
        """Which weights each task uses, by the task that owns them: its own and all before it."""
        owned = [torch.bincount(owner.flatten(), minlength=len(self.tasks) + 1).tolist() for owner in self._owners]
        # A block of a module has several matrices, each with a line of its own.
        layers = None if isinstance(self.template, Skeleton) else list(matrices(self.shared.body))
        return self._units(lambda place: [own[1 : place + 2] for own in owned], "weights", layers)

    def explain(self) -> list[str]:
        """How much of the network each task owns."""
        total = sum(owner.numel() for owner in self._owners)
        lines = []
        for place, task in enumerate(self.tasks):
            own = sum(int((owner == place + 1).sum()) for owner in self._owners)
            lines.append(f"{task.name} owns {own / total:.1%} of the shared weights.")
        return lines


def largest(weights: Tensor, among: Tensor, share: float) -> Tensor:
    """Where the largest weights by magnitude are, among some of a tensor: a boolean tensor.

    As much as ``share`` of them is marked, rounded; at least one, if there is any.

    >>> largest(torch.tensor([3.0, -4.0, 1.0, 9.0]), torch.tensor([True, True, True, False]), 0.34)
    tensor([False,  True, False, False])
    """
    count = int(among.sum())
    marked = torch.zeros_like(among)
    if count:
        keep = max(1, round(share * count))
        magnitude = torch.where(among, weights.detach().abs(), -torch.ones_like(weights))
        # A stable sort, so that ties are broken in the same way everywhere.
        order = magnitude.flatten().sort(descending=True, stable=True).indices
        marked.view(-1)[order[:keep]] = True
    return marked
