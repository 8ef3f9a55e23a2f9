"""SGD with penalties that make weights exactly zero: the sum of magnitudes, and the norms of whole neurons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ramet.training import Settings


@dataclass(frozen=True)
class Sparse:
    """A penalty mu |W|_1 + gamma (the sum of the norms of its rows) on a parameter.

    Args:
        param: The parameter.
        l1: Mu.
        group: Gamma.
        rows: Which rows the penalty of groups is on, booleans; all if none.
        mask: Which values the penalty of magnitudes is on, booleans that broadcast; all if none.
    """

    param: Tensor
    l1: float = 0.0
    group: float = 0.0
    rows: Tensor | None = None
    mask: Tensor | None = None


class ProximalSgd(torch.optim.SGD):
    """SGD with the settings' momentum and weight decay, and after each step the proximal map of the penalties.

    A subgradient of a magnitude never ends at zero; the proximal map sets what the loss does not hold to exactly zero.
    Momentum makes a constant gradient go 1 / (1 - momentum) times as far as the learning rate, so the map takes that
    reach too: penalty and loss then have the weights that the formula gives them.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], penalties: Sequence[Sparse], settings: Settings) -> None:
        super().__init__(
            list(groups),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            foreach=True,
        )
        self._penalties = list(penalties)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step, and the proximal map."""
        super().step(closure)
        reach = {id(p): g["lr"] / (1 - g["momentum"]) for g in self.param_groups for p in g["params"]}
        with torch.no_grad():
            for penalty in self._penalties:
                shrink_(penalty, reach[id(penalty.param)])


def shrink_(penalty: Sparse, reach: float) -> None:
    """The proximal map of a penalty for a step, in place: magnitudes first, then the rows' norms.

    >>> weights = torch.tensor([[3.0, -4.0], [0.5, 0.1]])
    >>> shrink_(Sparse(weights, group=1.0), reach=1.0)
    >>> weights
    tensor([[ 2.4000, -3.2000],
            [ 0.0000,  0.0000]])
    """
    values = penalty.param.detach()
    if penalty.l1:
        shrunk = torch.nn.functional.softshrink(values, penalty.l1 * reach)
        values = shrunk if penalty.mask is None else torch.where(penalty.mask, shrunk, values)
    if penalty.group:
        norms = values.flatten(1).norm(dim=1)
        factors = (1 - penalty.group * reach / norms.clamp_min(1e-30)).clamp_min(0.0)
        if penalty.rows is not None:
            factors = torch.where(penalty.rows, factors, torch.ones_like(factors))
        values = values * factors.reshape(-1, *[1] * (values.ndim - 1))
    penalty.param.data.copy_(values)
