"""What proposes the next architecture and learns from rewards: the seam that every strategy implements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.registry.lines import one_line
from ramet.seeding import torch_generator
from ramet.spaces import Arch, Space


class Strategy(ABC):
    """Proposes architectures of a space, and learns from the rewards that they get.

    A loop asks and tells, and knows nothing else::

        archs = strategy.propose(10)
        strategy.observe(archs, [reward(arch) for arch in archs])

    More reward is better. Rewards may be noisy, and one architecture may be proposed and observed many times. A
    strategy sees only ``space.num_options``, so that it works with every space. All its draws come from a generator of
    its own.

    An author of a strategy writes ``draw``, ``learn``, ``state`` and ``load_state``; arguments arrive checked. The
    checks of ``ramet.testing.strategies`` tell whether it keeps what this seam promises.

    Args:
        space: the architectures.
        seed: the seed of all that the strategy draws.
    """

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        if space.num_archs < 2:
            raise ConfigError(f"a search needs a space of at least 2 architectures, but got {space.num_archs}.")
        self.space = space
        self.generator = torch_generator(seed, "strategy", type(self).__name__)

    def __repr__(self) -> str:
        return one_line(self, f"over {self.space!r}")

    # What a loop calls.

    def propose(self, n: int) -> list[Arch]:
        """The next ``n`` architectures to look at."""
        if n < 1:
            raise ConfigError(f"a strategy proposes at least 1 architecture, but was asked for {n}.")
        return self.draw(n)

    def observe(self, archs: Sequence[Arch], rewards: Sequence[float]) -> None:
        """Learn from rewards; the architectures need not be ones that were proposed.

        Raises:
            ConfigError: if the numbers differ, an architecture is not of the space, or a reward is not finite. Leave
                out a child that diverged: there is nothing to learn from NaN.
        """
        if len(archs) != len(rewards):
            raise ConfigError(f"every architecture needs a reward, but got {len(archs)} and {len(rewards)}.")
        for arch, reward in zip(archs, rewards, strict=True):
            self.space.check(arch)
            if not math.isfinite(reward):
                raise ConfigError(f"a reward must be finite, but {self.space.name(arch)} got {reward}.")
        if archs:
            self.learn(list(archs), [float(reward) for reward in rewards])

    def derive(self, n: int) -> list[Arch]:
        """The architectures that the strategy would end with, at most ``n``, all different, the best first."""
        return list(dict.fromkeys(self.propose(n)))

    def report(self) -> dict[str, float]:
        """Figures that say how far the strategy is, by name."""
        return {}

    # What an author writes.

    @abstractmethod
    def draw(self, n: int) -> list[Arch]:
        """Propose ``n`` architectures, ``n`` being at least 1."""

    @abstractmethod
    def learn(self, archs: list[Arch], rewards: list[float]) -> None:
        """Learn from at least one architecture, all of the space and all rewards finite."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that ``load_state`` needs to go on bit for bit: what ``ramet.runs.pack_state`` can pack."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` gave."""

    def sample(self) -> Arch:
        """An architecture drawn uniformly with the strategy's own generator."""
        return self.space.sample(self.generator)

    def below(self, n: int) -> int:
        """A number from 0 to n - 1, drawn uniformly with the strategy's own generator."""
        return int(torch.randint(n, (), generator=self.generator))


def mutate(strategy: Strategy, arch: Arch) -> Arch:
    """The architecture with one decision, drawn uniformly from those that have a choice, taken otherwise."""
    free = [place for place, options in enumerate(strategy.space.num_options) if options > 1]
    place = free[strategy.below(len(free))]
    option = strategy.below(strategy.space.num_options[place] - 1)
    option += option >= arch[place]  # every other option is equally likely
    return (*arch[:place], option, *arch[place + 1 :])


def cloned(value: Any) -> Any:
    """A nested state with tensors of its own: an optimizer hands out, and keeps, the very ones it updates."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: cloned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cloned(item) for item in value)
    return value
