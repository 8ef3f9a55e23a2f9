"""What learning a task costs: multiply-adds, phase by phase; the same after a kill as without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

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


class ProductCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiply-adds of what runs within it, by torch's own formulas.

    Torch's own counter also follows which module calls which, by hooks that parameters in inference mode do not take.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations: int = 0

    @property
    def multiply_adds(self) -> int:
        """What was counted so far."""
        return self._operations // 2  # the formulas count the multiplication and the addition

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it if it is a product; one that is made of others is taken apart."""
        kwargs = kwargs or {}
        packet = func._overloadpacket
        if packet not in flop_registry and func is not torch.ops.prim.device.default:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        if packet in flop_registry:
            self._operations += flop_registry[packet](*args, **kwargs, out_val=result)
        return result


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
