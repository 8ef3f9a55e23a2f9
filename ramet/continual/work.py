"""What learning a task costs: multiply-adds, phase by phase; the same after a kill as without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ramet.costs import ProductCounter
from ramet.seeding import seeded_globally
from ramet.training.losses import check_loss


@dataclass
class TaskWork:
    """The multiply-adds of one task by what they were spent on: products of matrices and convolutions, both ways.

    A training adds what its steps take by their number, whether they were taken now or before a kill.

    >>> work = TaskWork()
    >>> work.add("probe", 100)
    >>> work.add("path", 50)
    >>> work.total
    150
    """

    phases: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All phases together."""
        return sum(self.phases.values())

    def add(self, phase: str, multiply_adds: float) -> None:
        """Count what a phase took."""
        self.phases[phase] = self.phases.get(phase, 0) + round(multiply_adds)

    @contextmanager
    def counted(self, phase: str) -> Iterator[None]:
        """Count what runs in the block; for what runs again on resuming, and trains nothing."""
        counter = ProductCounter()
        with counter:
            yield
        self.add(phase, counter.multiply_adds)


def step_work(
    module: nn.Module,
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
    batch: Sequence[Tensor],
    params: Sequence[Tensor],
) -> int:
    """The multiply-adds of one step on a mini-batch, forward and backward; everything is left as it was.

    The step is tried, not taken: parts that need no gradient are then left out as they are in a training. Buffers
    (batch-norm statistics) and random generators are put back, and there are no gradients afterwards.

    Args:
        module: what is trained, in the mode in which it is trained.
        loss: of inputs, targets and indices.
        batch: these three.
        params: what gradients are taken for.
    """
    counter = ProductCounter()
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        with seeded_globally(0, "work"), counter:
            value = check_loss(loss(*batch))
            if params and value.requires_grad:
                torch.autograd.grad(value, tuple(params), allow_unused=True)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
    return counter.multiply_adds
