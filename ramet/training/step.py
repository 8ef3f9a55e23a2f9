"""One step of a training, written once: every loop that trains the network under study takes its steps here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from ramet.errors import RunError
from ramet.training.acceleration import precision_of
from ramet.training.losses import check_loss
from ramet.training.recipe import Recipe
from ramet.training.step_sizes import OptimizerStepSizes, StepSize

if TYPE_CHECKING:
    from ramet.params import Params


class StepGuard(Protocol):
    """What a training asks of a guard; ``ramet.guards`` has the guards."""

    def watch(self, module: nn.Module) -> AbstractContextManager[None]:
        """Listen to the layers of a module while the block runs."""

    def step(self, params: Params, step_sizes: float | Mapping[str, StepSize]) -> AbstractContextManager[None]:
        """Guard the optimizer's step, which is taken inside the block."""

    def remember(self, params: Params) -> None:
        """Keep the model on the current path as one that later updates should not disturb."""

    def start_epoch(self, epoch: int) -> None:
        """Tell the guard which epoch begins."""

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""


@dataclass(frozen=True)
class Held:
    """Values of a parameter that no step may change, whatever momentum and weight decay do.

    The mask says which, a boolean tensor that broadcasts to the parameter's shape.
    """

    param: Tensor
    mask: Tensor


PLAIN = Recipe()
"""A step without anything: no clipping, mini-batches as they are."""


class Step:
    """Takes the steps of one training; which mini-batch, which learning rate and when to save is the loop's business.

    The learning rate of a parameter group is ``rate * group_rates[group]``, where ``rate`` is the step's. A loop that
    has one learning rate passes it as ``rate`` and leaves ``group_rates`` and ``unit`` at one; a loop whose groups have
    learning rates of their own passes those, and its schedule's factor as ``rate``.

    Args:
        network: What a guard watches.
        optimizer: Steps the parameters.
        recipe: What it says of a single step is done: ``clip_norm``, ``accumulate`` and ``precision``.
        params: The parameters by name that are clipped and guarded; all of the network if none.
        group_rates: For each parameter group, the learning rate at a ``rate`` of one; one if none.
        unit: The learning rate at a ``rate`` of one that a guard's step size is made of.
        held: Single values that do not move.
        only: The tensors that gradients are taken for; all that the loss depends on if none.
        sum_gradients: Makes the gradients of several processes those of the whole mini-batch, and gives its loss from
            this process' part of it; see ``ramet.searching.distributed``.
        skips: Whether a step whose loss or gradient is not finite is left out instead of refused.
        where: What this is a step of, in the refusal, such as ``" of phase 3"``.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe = PLAIN,
        *,
        params: Params | None = None,
        group_rates: Sequence[float] | None = None,
        unit: float = 1.0,
        held: Sequence[Held] = (),
        only: Sequence[Tensor] | None = None,
        sum_gradients: Callable[[Params, Tensor], Tensor] | None = None,
        skips: bool = False,
        where: str = "",
    ) -> None:
        self.params: Params = dict(network.named_parameters()) if params is None else params
        self._network, self._optimizer = network, optimizer
        self._clipped = list(self.params.values())
        # A gradient that is not finite is seen by its norm, which clipping gives for nothing.
        self._clip_norm = math.inf if recipe.clip_norm is None and skips else recipe.clip_norm
        self._accumulate, self._only = recipe.accumulate, None if only is None else tuple(only)
        self._recipe = recipe if recipe.precision != "float32" else None
        self._group_rates = [1.0] * len(optimizer.param_groups) if group_rates is None else list(group_rates)
        # Momentum makes a constant gradient go 1 / (1 - momentum) times as far as the learning rate.
        self._unit, self._rest = unit, 1 - optimizer.param_groups[0].get("momentum", 0.0)
        # Other optimizers than SGD have a step size for each value, which a guard reads when the step is taken.
        # Of SGD so have groups with learning rates of their own, unless the loop says by ``unit`` what to go by.
        is_plain = isinstance(optimizer, torch.optim.SGD) and (unit != 1.0 or set(self._group_rates) <= {1.0})
        self._sizes = None if is_plain else OptimizerStepSizes(optimizer, self.params)
        self._held = [(entry, entry.param.detach().clone()) for entry in held]
        self._sum_gradients, self._skips, self._where = sum_gradients, skips, where

    def __call__(
        self,
        number: int,
        rate: float,
        loss: Callable[..., Tensor],
        *batch: Tensor,
        guard: StepGuard | None = None,
        new_epoch: int | None = None,
    ) -> float:
        """Take one step.

        Args:
            number: Of the step, for the refusal.
            rate: The learning rate, or its factor.
            loss: Gives the mean loss of samples, called as ``loss(*batch)``.
            batch: Tensors of the mini-batch, each of shape [batch, ...].
            guard: What keeps the step from disturbing earlier models.
            new_epoch: The epoch that begins with this step, for the guard.

        Returns:
            The loss; NaN if the step was left out.

        Raises:
            RunError: The loss is not finite; the parameters are as they were before the step.
        """
        optimizer, params = self._optimizer, self.params
        for group, own in zip(optimizer.param_groups, self._group_rates, strict=True):
            group["lr"] = own * rate

        optimizer.zero_grad(set_to_none=True)
        with nullcontext() if guard is None else guard.watch(self._network):
            value = self._backward(loss, batch)
        if self._sum_gradients is not None:
            value = self._sum_gradients(params, value)

        norm = None
        if self._clip_norm is not None:
            norm = nn.utils.clip_grad_norm_(self._clipped, self._clip_norm, foreach=True)

        found = value.item()
        if self._skips and not (math.isfinite(found) and norm is not None and math.isfinite(norm)):
            return math.nan
        if not math.isfinite(found):
            # Before the first step no learning rate has had an effect.
            why = "a lower learning rate may help" if number else "the network or the data give it, before any step"
            raise RunError(f"the loss must stay finite, but is {found} in step {number}{self._where}; {why}.")

        if guard is None:
            optimizer.step()
        else:
            if new_epoch is not None:
                guard.start_epoch(new_epoch)
            with guard.step(params, self._unit * rate / self._rest if self._sizes is None else self._sizes):
                optimizer.step()

        if self._held:
            with torch.no_grad():
                for entry, values in self._held:
                    entry.param.copy_(torch.where(entry.mask, values, entry.param))
        return found

    def _loss(self, loss: Callable[..., Tensor], batch: tuple[Tensor, ...]) -> Tensor:
        """The loss of samples, in the recipe's precision."""
        if self._recipe is None:
            value = loss(*batch)
        else:
            with precision_of(self._recipe, batch[0].device):
                value = loss(*batch)
        return check_loss(value)

    def _backward(self, loss: Callable[..., Tensor], batch: tuple[Tensor, ...]) -> Tensor:
        """Add up the gradients of the mini-batch's mean loss, and give that loss, detached."""
        size = len(batch[0])
        num_parts = min(self._accumulate, size // 2)  # batch norm needs two samples
        if num_parts <= 1:
            value = self._loss(loss, batch)
            torch.autograd.backward(value, inputs=self._only)
            return value.detach()
        total = torch.zeros((), device=batch[0].device)
        for part in zip(*(tensor.tensor_split(num_parts) for tensor in batch), strict=True):
            value = self._loss(loss, part) * (len(part[0]) / size)
            torch.autograd.backward(value, inputs=self._only)
            total = total + value.detach()
        return total
