"""Momentum and learning rate by path: children of a kind share a momentum, and large ones keep learning longer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.ranking.trainings.base import TrainingSize
from ramet.ranking.trainings.single import SinglePath
from ramet.spaces import Arch, Space
from ramet.spaces.extremes import find_cheapest

if TYPE_CHECKING:
    from ramet.training import Recipe

BUFFER = "momentum_buffer"
"""What torch's SGD calls it."""


def slower_decay(rate: float, first: float, exponent: float) -> float:
    """A schedule's rate as first * (rate / first) ** exponent: it decays less if the exponent is below one.

    >>> slower_decay(0.25, 1.0, 0.5), slower_decay(0.25, 1.0, 1.0)
    (0.5, 0.25)
    """
    return first * (rate / first) ** exponent if rate > 0 and first > 0 else rate


class ByPathTraining(SinglePath):
    r"""One child a step, in the plan's order, with a learning rate and a momentum of its own kind.

    **Learning rate.** Small children are trained enough before large ones are. With the schedule's rate
    :math:`\eta_t` a child learns at :math:`\eta_0 (\eta_t / \eta_0)^\gamma`; gamma falls linearly from 1 +
    ``rate_spread`` for the child with fewest parameters to 1 - ``rate_spread`` for the one with most, whose rate so
    decays less. With a linear schedule that is :math:`\eta_0 (1 - t / T)^\gamma`.

    **Momentum.** Gradients of unlike children add up to noise in one momentum. Here those that have the same option of
    one decision have a momentum in common; another's is put aside while they are trained.

    Args:
        space: the architectures.
        seed: is not used: the plan's order says whose turn it is.
        rate_spread: how far gamma is from one at both ends; 0 keeps the schedule for all.
        decision: whose option says which children share a momentum, counted from 0; -1 keeps one momentum for all.

    Reference: Jeon and others, Subnet-aware dynamic supernet training for neural architecture search, 2025. Ours are
    the range of gamma, that complexity is counted in parameters, and that a decision of the user's makes the groups.
    """

    has_state: ClassVar[bool] = True

    def __init__(self, space: Space, *, seed: int = 0, rate_spread: float = 0.5, decision: int = 0) -> None:
        super().__init__(space, seed=seed)
        if not 0 <= rate_spread < 1:
            raise ConfigError(f"rate_spread must be at least 0 and below 1, but got {rate_spread}.")
        if not -1 <= decision < len(space.num_options):
            raise ConfigError(
                f"decision must be between 0 and {len(space.num_options) - 1}, or -1 for none, but got {decision}."
            )
        self.rate_spread, self.decision = rate_spread, decision
        self._sizes: dict[Arch, float] = {}
        self.begin(TrainingSize(1, 1, 1, 0.0))

    def check(self, recipe: Recipe) -> None:
        """Refuse a recipe whose optimizer has no momentum that could be exchanged."""
        if self.decision >= 0 and recipe.optimizer != "sgd":
            raise ConfigError(
                f"a momentum by path is that of the optimizer sgd, but the recipe has {recipe.optimizer}."
            )

    def begin(self, size: TrainingSize) -> None:
        """No child has a momentum."""
        self._first_rate = size.learning_rate
        self._group = -1
        self._aside: dict[int, dict[str, Tensor]] = {}  # by group, the momentum of parameters by their place

    # -- learning rate -----------------------------------------------------------------------------------------------

    @cached_property
    def _network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            return self.space.supernet(getattr(self.space, "in_channels", 3), getattr(self.space, "num_classes", 10))

    def _size_of(self, arch: Arch) -> float:
        if arch not in self._sizes:
            self._sizes[arch] = float(count_parameters(self._network.child(arch)))  # type: ignore[operator]
        return self._sizes[arch]

    @cached_property
    def _ends(self) -> tuple[float, float]:
        smallest = find_cheapest(self.space, self._size_of)
        return self._size_of(smallest), self._size_of(find_cheapest(self.space, lambda arch: -self._size_of(arch)))

    def exponent(self, arch: Arch) -> float:
        """Gamma of a child."""
        least, most = self._ends
        if most == least:
            return 1.0
        place = min(1.0, max(0.0, (self._size_of(arch) - least) / (most - least)))
        return 1 + self.rate_spread * (1 - 2 * place)

    def rate(self, step: int, rate: float, archs: Sequence[Arch]) -> float:
        """The rate of the child whose turn it is."""
        if self.rate_spread == 0:
            return rate
        return slower_decay(rate, self._first_rate, self.exponent(archs[0]))

    # -- momentum ----------------------------------------------------------------------------------------------------

    def before_step(self, step: int, archs: Sequence[Arch], optimizer: torch.optim.Optimizer) -> None:
        """Put the momentum of the last child's kind aside, and take up that of this one's."""
        if self.decision < 0 or archs[0][self.decision] == self._group:
            return
        params = [param for group in optimizer.param_groups for param in group["params"]]
        buffers = {str(place): optimizer.state[param].pop(BUFFER, None) for place, param in enumerate(params)}
        if self._group >= 0:
            self._aside[self._group] = {place: buffer for place, buffer in buffers.items() if buffer is not None}
        self._group = archs[0][self.decision]
        for place, buffer in self._aside.pop(self._group, {}).items():
            param = params[int(place)]
            optimizer.state[param][BUFFER] = buffer.to(param.device)  # one that a checkpoint had is on the CPU

    def state_dict(self) -> dict[str, Any]:
        """Whose momentum the optimizer has, and those put aside."""
        return {"group": self._group, "aside": {str(group): buffers for group, buffers in self._aside.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._group = int(state["group"])
        self._aside = {
            int(group): {place: buffer.clone() for place, buffer in buffers.items()}
            for group, buffers in state["aside"].items()
        }
