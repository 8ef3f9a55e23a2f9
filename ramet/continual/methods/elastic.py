"""Elastic weight consolidation over shared layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.nn.functional import cross_entropy

from ramet.continual.methods.shared_body import SharedBody, rows
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.errors import ConfigError
from ramet.guards import ElasticConsolidation, diagonal_fisher
from ramet.guards.quadratic import Form
from ramet.params import named_params
from ramet.seeding import derive_seed


@dataclass(kw_only=True, eq=False)
class Elastic(SharedBody):
    """Shared layers that are held near the weights of earlier tasks, each by its Fisher information for them.

    The Fisher information is the empirical one of single samples, measured when a task is finished. The penalty is
    taken as a proximal step by default, which is stable at any strength; see ``ramet.guards.ElasticConsolidation``.

    Args:
        strength: Lambda of the paper; tune it on validation data. The default lies between the best
            for split digits (10^7) and for permuted ones (10^4), both chosen on validation data.
        form: ``implicit`` or ``explicit``.
        samples: How many training samples the Fisher information is measured on.

    Raises:
        ConfigError: A number is out of its range.

    Reference: Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017.
    """

    name: ClassVar[str] = "elastic"
    takes_shared_head: ClassVar[bool] = True
    strength: float = 1e5
    form: Form = "implicit"
    samples: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 1:
            raise ConfigError(f"samples must be at least 1, but got {self.samples}.")
        self._guard = self._make_guard()

    def _make_guard(self) -> ElasticConsolidation:
        # A head that all tasks have is worth protecting as well; one of a finished task does not move anyway.
        return ElasticConsolidation(self.strength, form=self.form, protect=("body.*", *self._shared_head))

    @property
    def _shared_head(self) -> tuple[str, ...]:
        is_started = hasattr(self, "skeleton")
        return ("heads.*",) if is_started and self.skeleton.shared_head else ()

    def _begin(self) -> None:
        super()._begin()
        self._guard = self._make_guard()

    def _train(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place, data = len(self.tasks), task.train
        train(
            self.shared,
            lambda indices: self.classification_loss(data, place, indices),
            len(data),
            self.settings,
            seed=self.training_seed(),
            guard=self._guard,
            saves=saves,
        )
        chosen = rows(derive_seed(self.seed, "fisher", place), len(data), self.samples)
        x, y = data.x[chosen], data.y[chosen]
        # Few samples at a time: each has a gradient of the size of the network.
        fisher = diagonal_fisher(self.shared.eval(), cross_entropy, x, y, arguments=(place,), chunk_size=16)
        self._guard.remember(named_params(self.shared), fisher)
        return {"guard": self._guard.report()}

    def state(self) -> dict[str, Any]:
        """The weights, the Fisher information and the anchors."""
        return {**super().state(), "guard": {name: value.clone() for name, value in self._guard.state_dict().items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        super().load_state(state)
        self._guard = self._make_guard()
        if state["guard"]:
            self._guard.load_state_dict(state["guard"])
