"""Weights by SGD and choices by Adam, as one optimizer: what searches over layers and masks over weights need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ramet.training import Settings


class SgdAndAdam(torch.optim.Optimizer):
    """Steps some parameters with Adam, without weight decay, and all others with SGD.

    For ``train(..., optimizer=...)``: learning rates of both follow the same cosine, and both are saved and resumed.

    Args:
        groups: Parameter groups with their learning rates.
        choices: The parameters that Adam steps.
        choice_rate: Its first learning rate, whatever the groups say.
        settings: Momentum and weight decay of SGD.

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
        self._sgd = torch.optim.SGD(
            [group for group in weights if group["params"]],
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            foreach=True,
        )
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
