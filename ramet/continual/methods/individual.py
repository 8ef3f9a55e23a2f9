"""A network for each task alone: nothing is shared, so nothing is forgotten and nothing is gained."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import nn

from ramet.continual.method import Method
from ramet.continual.methods.head_fitting import copy_with_fitted_head
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.costs import count_parameters
from ramet.fields import require_choices
from ramet.seeding import derive_seed


@dataclass(kw_only=True, eq=False)
class Individual(Method):
    """The reference of every gain: each task has a whole network for itself, or a copy of a trained one.

    Args:
        head_weights: of copies of a trained network, what a new head begins with: ``fitted`` to what the network gives
            as it is, as other methods have it, or ``fresh``.
    """

    name: ClassVar[str] = "individual"
    takes_shared_head: ClassVar[bool] = True
    forgets_nothing: ClassVar[bool] = True
    needs_chain: ClassVar[str] = ""
    needs_classes: ClassVar[str] = ""
    keeps_start: ClassVar[bool] = True

    head_weights: Literal["fitted", "fresh"] = "fitted"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choices(self)

    def _begin(self) -> None:
        self.networks: list[nn.Module] = []

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place = len(self.tasks)
        network = self._beginning(task, place, saves)
        seed = derive_seed(self.seed, "task", place)
        train(network, *classification(network, task.train, self.settings), self.settings, seed=seed, saves=saves)
        self.networks.append(network)
        return {}

    def _beginning(self, task: TaskData, place: int, saves: Saves) -> nn.Module:
        """The network before it is trained."""
        role, num_classes = ("individual", place), task.info.num_classes
        template = self._made_from()
        if not template.is_trained or self.head_weights == "fresh":
            return template.make_network(num_classes, self.seed, *role).to(self.device)
        return copy_with_fitted_head(template, task, self.settings, role, seed=self.seed, saves=saves)

    def _made_from(self) -> Template:
        """What the networks are made from."""
        return self.template

    def network(self, name: str) -> nn.Module:
        """A copy of the task's network."""
        return copy.deepcopy(self.networks[self.place(name)]).eval()

    def num_parameters(self) -> int:
        """The parameters of all networks."""
        return sum(count_parameters(network) for network in self.networks)

    def state(self) -> dict[str, Any]:
        """The weights of each network."""
        return {"networks": copied(self.networks)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.networks = []
        for task, tensors in zip(self.tasks, state["networks"], strict=True):
            network = self._made_from().make_network(task.num_classes, self.seed).to(self.device)
            network.load_state_dict(tensors)
            self.networks.append(network.eval())
