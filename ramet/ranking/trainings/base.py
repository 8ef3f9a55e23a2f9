"""What a way to train a supernet is: the seam that each of them implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ramet.spaces import Arch, Space, training_loss

OfOutputs = Callable[[Tensor, Tensor], Tensor]
"""The loss of outputs and targets."""


class SupernetTraining(ABC):
    """Which children a step of a supernet's training takes, and what it minimises over them.

    An author writes ``archs``, and ``loss`` where that is not the sum of the children's own. Both follow from the seed
    and the step alone and keep nothing, so that a training that was killed goes on bit for bit. The optimizer, the
    schedule, the mini-batches and the guard are the loop's.

    Args:
        space: the architectures.
        seed: of all draws.
    """

    takes_turns: ClassVar[bool] = False
    """Whether a step trains the child alone whose turn the order says it is; only such work in groups."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self.space, self.seed = space, seed

    @property
    @abstractmethod
    def children_per_step(self) -> int:
        """How many children a step takes at most: what it costs, in steps of one child."""

    @abstractmethod
    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The children of a step, by its number and the child whose turn the order says it is."""

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, archs: Sequence[Arch], of_outputs: OfOutputs) -> Tensor:
        """What a step minimises on a mini-batch: by default the sum of the children's losses.

        Gradients add up, as if each child had taken its own, and the optimizer steps once.
        """
        return torch.stack([training_loss(network, x, y, arch, of_outputs) for arch in archs]).sum()
