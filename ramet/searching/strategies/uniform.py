"""Random search: the baseline that every strategy has to beat."""

from __future__ import annotations

from typing import Any

from ramet.searching.strategies.base import Strategy
from ramet.spaces import Arch


class RandomSearch(Strategy):
    """Proposes architectures uniformly, and learns nothing."""

    def draw(self, n: int) -> list[Arch]:
        """Uniform draws; one may come twice."""
        return [self.sample() for _ in range(n)]

    def learn(self, archs: list[Arch], rewards: list[float]) -> None:
        """Nothing."""

    def state(self) -> dict[str, Any]:
        """The generator."""
        return {"generator": self.generator.get_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.generator.set_state(state["generator"])
