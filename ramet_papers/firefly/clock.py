"""How long a method takes to grow: its own time alone, whatever else the machine does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ramet.growth import Edit, Growth, GrowthContext, Proposal


class Timed(Growth):
    """A growth method that is timed: proposing (with the training of candidates), scoring and writing the edit.

    Time is that of the process on a CPU, so that other work on the machine does not count, and that of the wall on a
    GPU. ``seconds`` holds that of each growth step so far.
    """

    def __init__(self, method: Growth) -> None:
        self.method = method
        self.seconds: list[float] = []
        self._started = 0.0

    def propose(self, context: GrowthContext) -> Proposal:
        """The method's candidates."""
        self._started = now(context.x)
        return self.method.propose(context)

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """The method's scores."""
        return self.method.score(context, proposal)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The method's edit."""
        edit = self.method.apply(context, proposal, chosen)
        self.seconds.append(now(context.x) - self._started)
        return edit

    def observe(self, score: float) -> bool:
        """As the method."""
        return self.method.observe(score)

    def state_dict(self) -> dict[str, Any]:
        """As the method."""
        return self.method.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As the method."""
        self.method.load_state_dict(state)


def now(x: Tensor) -> float:
    """A reading of the clock for work on the device of a tensor, in seconds."""
    if x.device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(x.device)
    return time.perf_counter()
