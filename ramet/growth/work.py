"""Work: the multiply-adds that a training and a growth take, the currency in which ways to a network are compared.

A training step counts as three forward passes of each of its examples: one, and twice as much for the gradients, as in
``ramet.searching.staged``. What a growth computes besides (candidates, scores, trials, the search for what can grow) is
counted as it is done, forward and backward, by ``costs.ProductCounter``. Measuring a network on validation or test data
counts for no one.
"""

from __future__ import annotations

from torch import Tensor, nn

from ramet.costs import count_flops

PASSES = 3
"""Forward passes that a training step counts as."""


def step_work(network: nn.Module, x: Tensor, batch_size: int) -> float:
    """The work of one training step of a network on ``batch_size`` of the examples.

    >>> import torch
    >>> step_work(nn.Linear(3, 2), torch.zeros(5, 3), 4)
    72.0
    """
    return float(PASSES * batch_size * count_flops(network, x.shape[1:], dtype=x.dtype))


def affordable_steps(work: float, a_step: float) -> int:
    """How many whole steps some work pays for, at least one.

    >>> affordable_steps(100.0, 30.0), affordable_steps(10.0, 30.0)
    (3, 1)
    """
    return max(1, int(work // a_step)) if a_step > 0 else 1
