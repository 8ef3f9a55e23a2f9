"""A way to train a supernet, tied to a loop: it sees each step with the children that the step has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.params import Params
from ramet.ranking.trainings.base import OfOutputs, SupernetTraining, TrainingSize
from ramet.spaces import Arch


class DrivenTraining:
    """Gives ``ramet.training.fit`` its loss, its hooks and the part that it saves.

    Args:
        way: how the supernet is trained; it begins anew.
        turn: the child whose turn a step is.
        size: of the training.
    """

    def __init__(self, way: SupernetTraining, turn: Callable[[int], Arch], size: TrainingSize) -> None:
        way.begin(size)
        self.way, self.chooses_rows = way, way.chooses_rows
        self._turn, self._number = turn, -1
        self._archs: tuple[Arch, ...] = ()

    def archs(self, number: int) -> Sequence[Arch]:
        """The children of a step, the same ones from before it until the next."""
        if number != self._number:
            self._archs, self._number = tuple(self.way.archs(number, self._turn(number))), number
        return self._archs

    def loss(self, network: nn.Module, number: int, x: Tensor, y: Tensor, of_outputs: OfOutputs) -> Tensor:
        """What a step minimises."""
        return self.way.loss(network, x, y, self.archs(number), of_outputs)

    def rows(self, number: int, rows: Tensor) -> Tensor:
        """The samples of a step."""
        return self.way.rows(number, rows)

    def rate(self, number: int, rate: float) -> float:
        """The learning rate of a step."""
        return self.way.rate(number, rate, self.archs(number))

    def before_step(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        """Before a step."""
        self.way.before_step(number, self.archs(number), optimizer)

    def after_step(self, number: int, loss: float, params: Params) -> None:
        """After a step."""
        self.way.after_step(number, self.archs(number), loss, params)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold."""
        return self.way.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.way.load_state_dict(state)
        self._number = -1


def rank_last(scores: Sequence[float], dropped_after: Sequence[int | None]) -> list[float]:
    """Scores in which children that training has dropped are behind all others, those dropped first behind the rest.

    Their weights are those of their last step, or what others have made of them: such a score says nothing. All that
    were dropped together are moved down by the same amount, so that their best is just behind the worst of those
    before; their own order stays, and so do the scores of all others.

    >>> [round(score, 3) for score in rank_last([0.5, 0.9, 0.6, 0.7], [None, 2, None, 2])]
    [0.5, 0.5, 0.6, 0.3]
    """
    moved = list(scores)
    lowest = min((score for score, epoch in zip(scores, dropped_after, strict=True) if epoch is None), default=None)
    for epoch in sorted({epoch for epoch in dropped_after if epoch is not None}, reverse=True):
        places = [place for place, other in enumerate(dropped_after) if other == epoch]
        if lowest is not None:
            best = max(moved[place] for place in places)
            # A metric may be so large that a step of this size is lost in rounding.
            down = max(0.0, best - lowest + max(STEP_BEHIND, SMALLEST_STEP * abs(lowest)))
            for place in places:
                moved[place] -= down
        lowest = min(moved[place] for place in places)
    return moved


STEP_BEHIND = 1e-6
"""How far the best of the dropped is behind: less than one image of a million."""
SMALLEST_STEP = 1e-9
"""The same as a share of the score before it, of scores that are thousands."""
