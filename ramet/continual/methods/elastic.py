"""Elastic weight consolidation over shared layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.nn.functional import cross_entropy

from ramet.continual.methods.shared_body import Part, SharedBody, SharedNetwork, rows
from ramet.continual.networks.keeping import copied
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.guards import ElasticConsolidation, diagonal_fisher
from ramet.guards.quadratic import Form
from ramet.params import named_params
from ramet.seeding import derive_seed


class GuardPart(Part):
    """A guard that is told the empirical Fisher information of single samples when a task is finished."""

    name: ClassVar[str] = "guard"

    def __init__(self, guard: ElasticConsolidation, samples: int, seed: int) -> None:
        self.guard: ElasticConsolidation = guard
        self._samples, self._seed = samples, seed

    def finish(self, shared: SharedNetwork, place: int, data: Split) -> dict[str, Any]:
        """Measure the Fisher information, and remember it with the weights."""
        chosen = rows(derive_seed(self._seed, "fisher", place), len(data), self._samples)
        x, y = data.x[chosen], data.y[chosen]
        # Few samples at a time: each has a gradient of the size of the network.
        fisher = diagonal_fisher(shared.eval(), cross_entropy, x, y, arguments=(place,), chunk_size=16)
        self.guard.remember(named_params(shared), fisher)
        return {"guard": self.guard.report()}

    def state(self) -> Any:
        """The Fisher information and the anchors."""
        return copied(self.guard.state_dict())

    def load_state(self, state: Any, device: str) -> None:
        """The inverse of ``state``."""
        self.guard.load_state_dict(state)


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

    Reference: Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017.
    """

    name: ClassVar[str] = "elastic"
    needs_classes: ClassVar[str] = "its Fisher information is that of classes"
    strength: float = 1e5
    form: Form = "implicit"
    samples: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 1:
            raise ConfigError(f"samples must be at least 1, but got {self.samples}.")
        ElasticConsolidation(self.strength, form=self.form)  # refuses what is no strength or form

    def make_parts(self) -> list[Part]:
        """The guard."""
        # A head that all tasks have is worth protecting as well; one of a finished task does not move anyway.
        protect = ("body.*", "heads.*") if self.template.shared_head else ("body.*",)
        guard = ElasticConsolidation(self.strength, form=self.form, protect=protect)
        return [GuardPart(guard, self.samples, self.seed)]
