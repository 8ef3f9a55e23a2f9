"""What may be decided anew in each step of a training: its samples, its learning rate, the optimizer's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ramet.params import Params


class StepHooks(Protocol):
    """Called around each step of ``fit``; all that it does follows from the step's number and what it has saved.

    One that changes in ``after_step`` is one of the parts that ``fit`` saves besides (``also_saved``), so that a killed
    training goes on bit for bit.
    """

    chooses_rows: bool
    """Whether ``rows`` gives others than those it is given; what is read from the disk is then not read ahead."""

    def rows(self, number: int, rows: Tensor) -> Tensor:
        """The samples of a step, in place of those whose turn it is; shape [batch]."""

    def rate(self, number: int, rate: float) -> float:
        """The learning rate of a step, in place of the schedule's."""

    def before_step(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        """Before the step is taken: the optimizer's state may be exchanged."""

    def after_step(self, number: int, loss: float, params: Params) -> None:
        """After the step: its loss is known, and the parameters still have its gradients, as the optimizer saw them."""
