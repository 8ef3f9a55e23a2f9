"""Elastic weight consolidation: the classic penalty, as the baseline of the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.memory import FisherMemory
from ramet.guards.names import StepSizes
from ramet.guards.plasticity import Form, check_form, check_strength
from ramet.params import Params


class ElasticConsolidation(Guard):
    r"""Hold every weight near the values that finished tasks gave it, by its importance for them.

    After the tasks :math:`1 \dots K` the loss of the next one gains

    .. math:: \frac{\lambda}{2} \sum_k \sum_i F_{k,i} (\theta_i - \theta^*_{k,i})^2 .

    The sum over tasks is held exactly by one Fisher information and one anchor (the mean of the tasks' weights,
    weighted by their Fisher information), so that memory does not grow with the tasks. On the same squared gradients
    this is weight plasticity without a schedule; what the two papers differ in is what they derive it for: one model
    on several data sets here, several models on one data set there (section 3.1.1 of the plasticity paper).

    Args:
        strength: lambda; between 10 and 10,000 in common use, and worth tuning on validation data.
        form: "explicit", the loss as written, or "implicit", its proximal step; see ``WeightPlasticity``.
        discount: what remains of the earlier tasks' Fisher information at each new task; below 1 this is the online
            variant. It keeps the weighted mean as its anchor, while Schwarz et al. keep the last task's weights.
        protect: shell patterns of the parameter names that are guarded.

    Raises:
        ConfigError: for a value outside its range; from ``remember`` when there are no gradients to learn from.

    Example:
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
        protect: Sequence[str] = ("*",),
    ) -> None:
        check_strength(strength)
        check_form(form)
        if not 0.0 <= discount <= 1.0:
            raise ConfigError(f"discount must be between 0 and 1, but got {discount}.")
        self.strength = strength
        self.form = form
        self.discount = discount
        self._memory = FisherMemory(protect=protect)

    @classmethod
    def for_search(
        cls, strength: float = 60.0, *, form: Form = "implicit", discount: float = 0.9
    ) -> ElasticConsolidation:
        """Elastic consolidation for a supernet, with a discount: weights are held where finished models had them."""
        # A supernet remembers a model a mini-batch: without a discount, its sum would freeze the weights in no time.
        return cls(strength, form=form, discount=discount)

    @classmethod
    def for_tasks(cls, strength: float) -> ElasticConsolidation:
        """Elastic consolidation by proximal steps, which are stable at any strength."""
        return cls(strength, form="implicit")

    def before_step(self, path: Params) -> None:
        """In the explicit form, add the penalty's gradient."""
        if self.form == "explicit" and self.strength > 0:
            self._memory.add_gradients(path, self.strength)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """In the implicit form, take the penalty's proximal step; in the explicit one, take its gradient back."""
        if self.form == "explicit":
            self._memory.take_gradients_back(path)
        elif self.strength > 0:
            self._memory.pull(path, step_sizes, self.strength)

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Add the finished task's penalty."""
        self._memory.learn(path, fisher, keep=self.discount, share=1.0, refresh=False)

    def forget(self) -> None:
        """Drop the Fisher information and the anchors."""
        self._memory.forget()

    def report(self) -> dict[str, float]:
        """The strength, and how many values are guarded."""
        return {"alpha": self.strength, "guarded_values": float(self._memory.num_values())}

    def state_dict(self) -> dict[str, Tensor]:
        """``fisher/NAME`` and ``anchor/NAME`` for each parameter."""
        return self._memory.state_dict()

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """The inverse of ``state_dict``."""
        self._memory.load_state_dict(state)
