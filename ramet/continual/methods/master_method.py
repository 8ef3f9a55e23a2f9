"""What methods on a master network have in common: a task's network is taken out of it, and it is what is saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from ramet.continual.method import Method
from ramet.continual.methods.head_fitting import copy_with_fitted_head
from ramet.continual.networks.master import Draft, Master
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import accuracy


@dataclass(kw_only=True, eq=False)
class MasterMethod(Method):
    """A method whose tasks use neurons of one master network; sub-classes learn, and say a sentence about each task.

    The neurons of a module are the units that growth's trace finds: channels (those that a residual connection adds up
    are one), hidden units, heads of attention. Channels that a layer norm runs over stay as many as they are. Batch
    norms and the head are each task's own, and so are vectors that belong to no unit; all else is the master's.
    """

    needs_chain: ClassVar[str] = ""
    needs_units: ClassVar[bool] = True
    keeps_start: ClassVar[bool] = True
    needs_accuracy: ClassVar[str] = "it weighs what a task gains in accuracy"

    def _begin(self) -> None:
        self.master = Master(self.template, self.device)
        self._said: list[str] = []

    def _whole(self, task: TaskData, saves: Saves) -> Draft:
        """A network of all the template's units, all of them the first task's own; a trained one has a fitted head."""
        if self.template.is_trained:
            network = copy_with_fitted_head(self.template, task, self.settings, ("first",), seed=self.seed, saves=saves)
        else:
            network = self.template.make_network(task.info.num_classes, self.seed, "first").to(self.device)
        return Draft.of_own(self.template, network)

    def _trained(self, draft: Draft, task: TaskData, saves: Saves, phase: str, *role: str) -> float:
        """Train what is new in a draft, by batches of its role; gives the accuracy on validation data."""
        network, seed = draft.network, derive_seed(self.seed, "task", len(self.tasks), *role)
        loss = classification(network, task.train, self.settings)
        train(network, *loss, self.settings, seed=seed, held=draft.held(), saves=saves, phase=phase)
        return accuracy(network, task.validation.x, task.validation.y)

    def network(self, name: str) -> nn.Module:
        """The task's neurons, taken out of the master."""
        place = self.place(name)
        with seeded_globally(0, "taken out"):  # a fresh head is drawn before its weights are put in
            return self.master.network(place, self.tasks[place].num_classes)

    def num_parameters(self) -> int:
        """The master network, the batch norms and the heads."""
        return self.master.num_parameters()

    def state(self) -> dict[str, Any]:
        """The master network with the neurons of each task and its heads, and what was said."""
        return {"master": self.master.state(), "said": list(self._said)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.master.load_state(state["master"])
        self._said = list(state["said"])

    def explain(self) -> list[str]:
        """What each task took, added or changed."""
        return list(self._said)
