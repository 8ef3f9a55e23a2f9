"""Single path: a step trains one child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from ramet.ranking.trainings.base import OfOutputs, SupernetTraining
from ramet.spaces import Arch, training_loss


class SinglePath(SupernetTraining):
    """One child a step, in the order of the plan: cyclic, shuffled or drawn uniformly.

    Reference: Guo and others, Single path one-shot neural architecture search with uniform sampling, 2020.
    """

    takes_turns: ClassVar[bool] = True

    @property
    def children_per_step(self) -> int:
        """One."""
        return 1

    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The child whose turn it is."""
        return [turn]

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, archs: Sequence[Arch], of_outputs: OfOutputs) -> Tensor:
        """The child's own."""
        return training_loss(network, x, y, archs[0], of_outputs)
