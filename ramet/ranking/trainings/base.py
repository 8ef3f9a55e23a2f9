"""What a way to train a supernet is: the seam that each of them implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.params import Params
from ramet.spaces import Arch, Space, training_loss

if TYPE_CHECKING:
    from ramet.training import Recipe

OfOutputs = Callable[[Tensor, Tensor], Tensor]
"""The loss of outputs and targets."""


@dataclass(frozen=True)
class TrainingSize:
    """How long a training is, on how many samples, and the learning rate that its schedule begins from."""

    num_steps: int
    steps_per_epoch: int
    num_samples: int
    learning_rate: float

    @property
    def num_epochs(self) -> int:
        """Its whole epochs."""
        return self.num_steps // self.steps_per_epoch


class SupernetTraining(ABC):
    """Which children a step of a supernet's training takes, and what it minimises over them.

    An author writes ``archs``, and ``loss`` where that is not the sum of the children's own. Most follow from the seed
    and the step alone and keep nothing, so that a training that was killed goes on bit for bit. One that learns from
    its steps sets ``has_state``, changes in ``after_step`` alone, and gives all of it in ``state_dict``. The optimizer,
    the schedule, the mini-batches and the guard are the loop's; ``rows``, ``rate`` and ``before_step`` may change what
    a step has of them.

    Args:
        space: the architectures.
        seed: of all draws.
    """

    takes_turns: ClassVar[bool] = False
    """Whether a step trains the child alone whose turn the order says it is; only such work in groups."""

    has_state: ClassVar[bool] = False
    """Whether later steps depend on earlier ones by more than the weights; a checkpoint then holds ``state_dict``."""

    chooses_rows: ClassVar[bool] = False
    """Whether ``rows`` gives other samples than those whose turn it is."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self.space, self.seed = space, seed

    @property
    @abstractmethod
    def children_per_step(self) -> int:
        """How many children a step takes at most: what it costs, in steps of one child."""

    @property
    def mean_children_per_step(self) -> float:
        """The mean over a training, where some steps have fewer: what trainings of one cost are made by."""
        return self.children_per_step

    @abstractmethod
    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The children of a step, by its number and the child whose turn the order says it is."""

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, archs: Sequence[Arch], of_outputs: OfOutputs) -> Tensor:
        """What a step minimises on a mini-batch: by default the sum of the children's losses.

        Gradients add up, as if each child had taken its own, and the optimizer steps once.
        """
        return torch.stack([training_loss(network, x, y, arch, of_outputs) for arch in archs]).sum()

    # -- what a way may do besides -----------------------------------------------------------------------------------

    def check(self, recipe: Recipe) -> None:  # noqa: B027
        """Refuse a recipe that this way cannot go with, by a ``ConfigError``."""

    def begin(self, size: TrainingSize) -> None:  # noqa: B027
        """Forget every step, because a training of this size begins; one that goes on is given its state after this."""

    def rows(self, step: int, rows: Tensor) -> Tensor:
        """The samples of a step, [batch]; by default those whose turn it is."""
        return rows

    def rate(self, step: int, rate: float, archs: Sequence[Arch]) -> float:
        """The learning rate of a step; by default the schedule's."""
        return rate

    def before_step(self, step: int, archs: Sequence[Arch], optimizer: torch.optim.Optimizer) -> None:  # noqa: B027
        """Before a step is taken: the optimizer's state may be exchanged."""

    def after_step(self, step: int, archs: Sequence[Arch], loss: float, params: Params) -> None:  # noqa: B027
        """After a step: what it minimised is known, and parameters have its gradients, clipped and guarded."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold: tensors and JSON values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Go on from a checkpoint."""

    # -- what a ranking must know of it ------------------------------------------------------------------------------

    def dropped_after(self, arch: Arch) -> int | None:
        """The epochs after which a child was dropped; none for one that is still trained. Dropped ones rank last."""
        return None

    def told(self) -> Sequence[Arch]:
        """The children of whose order it was told: the others alone say what the ranking is worth."""
        return ()

    def report(self) -> dict[str, Any]:
        """What it has to say of itself at the end, in JSON values."""
        return {}
