"""SGD with penalties that make weights exactly zero, and SGD beside Adam for choices and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ramet.training import Settings


@dataclass(frozen=True)
class Sparse:
    """A penalty mu |W|_1 + gamma (the sum of the norms of its rows) on a parameter; ``l1`` is mu, ``group`` gamma.

    Booleans say which ``rows`` the penalty of groups is on and, broadcast, in ``mask`` which values that of magnitudes;
    all if none.
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
        super().__init__(list(groups), **_of_sgd(settings))
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


class SgdAndAdam(torch.optim.Optimizer):
    """Steps the choices with Adam, without weight decay, and all other parameters with SGD.

    For ``train(..., optimizer=...)``: learning rates of both follow the same cosine, that of the choices from
    ``choice_rate``, whatever the groups say; both are saved and resumed.

    Example:
        >>> weight, choice = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
        >>> groups = [{"params": [weight, choice], "lr": 0.5}]
        >>> both = SgdAndAdam(groups, [choice], 0.01, Settings(momentum=0.0, weight_decay=0.0))
        >>> (2 * weight + 3 * choice).sum().backward()
        >>> both.step()
        >>> weight.item(), round(choice.item(), 4)
        (0.0, 0.99)
    """

    def __init__(
        self, groups: Sequence[dict[str, Any]], choices: Sequence[Tensor], choice_rate: float, settings: Settings
    ) -> None:
        chosen = {id(param) for param in choices}
        weights = [group | {"params": [p for p in group["params"] if id(p) not in chosen]} for group in groups]
        self._sgd = torch.optim.SGD([group for group in weights if group["params"]], **_of_sgd(settings))
        self._adam = torch.optim.Adam(list(choices), lr=choice_rate, foreach=True)
        super().__init__([param for group in groups for param in group["params"]], {})
        self._join()

    def _join(self) -> None:
        # The very same dicts, so that a learning rate that is set here is set there.
        self.param_groups = [*self._sgd.param_groups, *self._adam.param_groups]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of both."""
        assert closure is None
        self._sgd.step()
        self._adam.step()

    def state_dict(self) -> dict[str, Any]:
        """The state of both."""
        return {"sgd": self._sgd.state_dict(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self._sgd.load_state_dict(state_dict["sgd"])
        self._adam.load_state_dict(state_dict["adam"])
        self._join()


def _of_sgd(settings: Settings) -> dict[str, Any]:
    settings.refuse("optimizer", "average", "undecayed", because="the method steps by an SGD of its own")
    rates = {"lr": settings.learning_rate, "momentum": settings.momentum, "weight_decay": settings.weight_decay}
    return {**rates, "foreach": True}
