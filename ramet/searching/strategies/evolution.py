"""Regularised evolution: tournaments in a population from which the oldest dies."""

from __future__ import annotations

from collections import deque
from typing import Any

from ramet.errors import ConfigError
from ramet.searching.strategies.base import Strategy, mutate
from ramet.spaces import Arch, Space


class Evolution(Strategy):
    """Regularised (ageing) evolution.

    The first ``population_size`` architectures are random. From then on a child is the mutation of the best among
    ``tournament_size`` members drawn from the population; when it is observed it joins, and the oldest member dies,
    however good it was. So a lucky reward does not rule for ever, which matters when rewards are noisy.

    Args:
        population_size: members, 100 in the reference.
        tournament_size: members that compete to be the parent, 25 in the reference.

    Reference: Real et al., Regularized Evolution for Image Classifier Architecture Search, 2019.
    """

    def __init__(self, space: Space, *, seed: int = 0, population_size: int = 100, tournament_size: int = 25) -> None:
        super().__init__(space, seed=seed)
        if population_size < 1 or tournament_size < 1:
            sizes = (population_size, tournament_size)
            raise ConfigError(f"population and tournament must have at least 1 member, but got {sizes}.")
        self.population_size = population_size
        self.tournament_size = tournament_size
        self._members: deque[tuple[Arch, float]] = deque(maxlen=population_size)
        self._drawn = 0  # random architectures proposed so far

    def draw(self, n: int) -> list[Arch]:
        """Random architectures until the population is full, then mutations of winners."""
        return [self._child() for _ in range(n)]

    def _child(self) -> Arch:
        if self._drawn < self.population_size or not self._members:
            self._drawn += 1
            return self.sample()
        # With replacement, as in the reference: a tournament may be larger than the population.
        rivals = [self._members[self.below(len(self._members))] for _ in range(self.tournament_size)]
        return mutate(self, max(rivals, key=lambda member: member[1])[0])

    def learn(self, archs: list[Arch], rewards: list[float]) -> None:
        """Each joins the population; the oldest die."""
        self._members.extend(zip(archs, rewards, strict=True))

    def derive(self, n: int) -> list[Arch]:
        """The members of the highest rewards."""
        ranked = sorted(self._members, key=lambda member: -member[1])
        return list(dict.fromkeys(arch for arch, _ in ranked))[:n] or super().derive(n)

    def state(self) -> dict[str, Any]:
        """The generator and the population."""
        members = [[list(arch), reward] for arch, reward in self._members]
        return {"generator": self.generator.get_state(), "members": members, "drawn": self._drawn}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.generator.set_state(state["generator"])
        self._members.clear()
        self._members.extend((tuple(arch), reward) for arch, reward in state["members"])
        self._drawn = state["drawn"]
