"""Elastic weight consolidation: the classic penalty, as the baseline of the others."""

from __future__ import annotations

from collections.abc import Sequence

from ramet.errors import ConfigError
from ramet.guards.quadratic import FisherGuard, Form, Unit
from ramet.params import Params


class ElasticConsolidation(FisherGuard):
    """Hold every weight near the values that finished tasks gave it, by its importance for them.

    After the tasks 1 to K the loss of the next one gains lambda / 2 times the sum over tasks k and weights i of F_ki
    (theta_i - theta*_ki)^2. The sum over tasks is held exactly by one Fisher information and one anchor (the mean of
    the tasks' weights, weighted by their Fisher information), so that memory does not grow with the tasks. On the same
    squared gradients this is weight plasticity without a schedule; what the two papers differ in is what they derive it
    for: one model on several data sets here, several models on one data set there (section 3.1.1 of the plasticity
    paper).

    Args:
        strength: lambda; between 10 and 10,000 in common use, and worth tuning on validation data.
        form: "explicit", the loss as written, or "implicit", its proximal step; see ``WeightPlasticity``.
        discount: what remains of the earlier tasks' Fisher information at each new task; below 1 this is the online
            variant. It keeps the weighted mean as its anchor, while Schwarz et al. keep the last task's weights.
        unit: what the strength is measured in; see ``WeightPlasticity``.
        protect: shell patterns of the parameter names that are guarded.

    Raises:
        ConfigError: for a value outside its range; from ``remember`` when there are no gradients to learn from.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.tensor([2.0]))
    >>> weight.grad = torch.tensor([3.0])
    >>> guard = ElasticConsolidation(strength=10.0)
    >>> guard.remember({"w": weight})
    >>> guard.report()
    {'alpha': 10.0, 'guarded_values': 1.0}

    Reference: Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017.
    """

    def __init__(
        self,
        strength: float = 1000.0,
        *,
        form: Form = "explicit",
        discount: float = 1.0,
        unit: Unit = "fisher",
        protect: str | Sequence[str] = "*",
    ) -> None:
        super().__init__(strength, form, protect, unit=unit)
        if not 0.0 <= discount <= 1.0:
            raise ConfigError(f"discount must be between 0 and 1, but got {discount}.")
        self.discount = discount

    @classmethod
    def for_search(
        cls,
        strength: float = 60.0,
        *,
        form: Form = "implicit",
        discount: float = 0.9,
        unit: Unit = "fisher",
        protect: str | Sequence[str] = "*",
    ) -> ElasticConsolidation:
        """Elastic consolidation for a supernet, with a discount: weights are held where finished models had them."""
        # A supernet remembers a model a mini-batch: without a discount, its sum would freeze the weights in no time.
        return cls(strength, form=form, discount=discount, unit=unit, protect=protect)

    @classmethod
    def for_tasks(cls, strength: float) -> ElasticConsolidation:
        """Elastic consolidation by proximal steps, which are stable at any strength."""
        return cls(strength, form="implicit")

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Add the finished task's penalty."""
        self.learn(path, fisher, keep=self.discount, share=1.0, refresh=False)
