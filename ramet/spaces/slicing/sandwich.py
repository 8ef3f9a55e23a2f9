"""The sandwich rule: in each step the whole, the smallest size and some between, taught by the whole.

Yu and Huang, *Universally slimmable networks*, 2019: the whole network learns from the labels, and what it gives in
this very step is what the others learn from (in-place distillation), so that a step needs no second network. Gradients
are added up, as if each size had taken them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch
from ramet.training.outputs import classes_last


@dataclass(frozen=True, kw_only=True)
class Sandwich:
    """How the sizes of an elastic space are trained together.

    Args:
        distillation: the share of what the whole gives in what the others learn from; labels have the rest. 1 in
            *Universally slimmable networks*.
        temperature: that both outputs are divided by before they are compared; 1 there, too.
        weight: of the loss of each other size, where the whole's is 1. Below 1 the whole is disturbed less.

    Raises:
        ConfigError: a number is out of its range.
    """

    distillation: float = 1.0
    temperature: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.distillation <= 1:
            raise ConfigError(f"distillation must lie in [0, 1], but got {self.distillation}.")
        if not self.temperature > 0:
            raise ConfigError(f"temperature must be positive, but got {self.temperature}.")
        if not self.weight > 0:
            raise ConfigError(f"weight must be positive, but got {self.weight}.")

    def loss(
        self,
        network: nn.Module,
        x: Tensor,
        y: Tensor,
        archs: Sequence[Arch],
        of_outputs: Callable[[Tensor, Tensor], Tensor],
        *,
        are_numbers: bool = False,
    ) -> Tensor:
        """The weighted sum of the losses of sizes, of which the first is the whole and teaches the others.

        Args:
            network: called as ``network(x, arch)``.
            x: inputs, [batch, ...].
            y: targets, by default classes, or shares of them.
            archs: the sizes, the whole first; one that comes again counts once.
            of_outputs: the loss of outputs and targets.
            are_numbers: whether targets are no classes; the others then learn the whole's outputs by this same loss.
        """
        whole, *others = dict.fromkeys(archs)
        taught = network(x, whole)
        total = of_outputs(taught, y)
        teacher = taught.detach()
        for arch in others:
            outputs = network(x, arch)
            if self.distillation:
                same = of_outputs(outputs, teacher) if are_numbers else self._divergence(outputs, teacher, y)
                total = total + self.weight * self.distillation * same
            if self.distillation < 1:
                total = total + self.weight * (1 - self.distillation) * of_outputs(outputs, y)
        return total

    def _divergence(self, outputs: Tensor, teacher: Tensor, y: Tensor) -> Tensor:
        """The cross-entropy to the teacher's shares of classes, times the squared temperature."""
        if not y.is_floating_point():
            outputs, teacher = classes_last(outputs, y), classes_last(teacher, y)
        shares = torch.softmax(teacher / self.temperature, -1)
        logs = torch.log_softmax(outputs / self.temperature, -1)
        return -(shares * logs).sum(-1).mean() * self.temperature**2
