"""Landmark regularisation: a few children of known order, and a hinge on pairs of their losses in the wrong order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.ranking.tables import read_scores
from ramet.ranking.trainings.base import OfOutputs, SupernetTraining, TrainingSize
from ramet.seeding import torch_generator
from ramet.spaces import Arch, Space, training_loss

if TYPE_CHECKING:
    from ramet.training import Recipe


def order_hinge(better: Tensor, worse: Tensor) -> Tensor:
    """The sum of max(0, better - worse) over pairs of losses: by how much a better child has the higher loss.

    Args:
        better: losses of the children that should have the lower ones, [pairs].
        worse: those of their partners, [pairs].
    """
    return (better - worse).clamp(min=0).sum()


class LandmarkTraining(SupernetTraining):
    r"""One child a step, in the plan's order, and pairs of landmarks that must not be in the wrong order.

    A step minimises

    .. math:: L(a) + \lambda \sum_{(b, c)} \max(0, L(b) - L(c))

    over pairs of landmarks drawn for the step, of which b is known to be better than c; lambda is ``coefficient``. In a
    warm-up there is the first term alone.

    **Where the order comes from.** A table of scores (``table``), such as short trainings alone: more is better.
    Without one, ``num_landmarks`` children are drawn by the seed and ordered by their parameters, the largest first:
    that is no knowledge about the data, it teaches the supernet that size is good. Landmarks of a table are told to the
    training, so that ``rank`` also says how the ranking of the *other* children agrees with the truth.

    Args:
        space: the architectures.
        seed: of all draws.
        table: scores of the landmarks, a CSV or ``.npz`` as for ``--truth``; all children in it are landmarks.
        num_landmarks: how many are drawn without a table, or all of a smaller space; the number is ours.
        num_pairs: pairs in a step; each costs two children.
        coefficient: of the hinge.
        warm_up: the share of the training that has no hinge.

    Reference: Yu, Ranftl and Salzmann, Landmark regularization: ranking guided super-net training in neural
    architecture search, 2021. The coefficient and the length of the warm-up are ours.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        table: str | None = None,
        num_landmarks: int = 30,
        num_pairs: int = 1,
        coefficient: float = 1.0,
        warm_up: float = 0.25,
    ) -> None:
        super().__init__(space, seed=seed)
        if num_landmarks < 2:
            raise ConfigError(f"num_landmarks must be at least 2, because one has no order, but got {num_landmarks}.")
        if num_pairs < 1:
            raise ConfigError(f"num_pairs must be at least 1, but got {num_pairs}.")
        if not 0 < coefficient < float("inf"):
            raise ConfigError(f"coefficient must be positive and finite, but got {coefficient}.")
        if not 0 <= warm_up < 1:
            raise ConfigError(f"warm_up must be at least 0 and below 1, but got {warm_up}.")
        self.table, self.num_landmarks, self.num_pairs = table, num_landmarks, num_pairs
        self.coefficient, self.warm_up = coefficient, warm_up
        self._first_step = 0
        self._given = None if table is None else self._read(table)

    def _read(self, table: str) -> dict[Arch, float]:
        found = read_scores(table)
        places = found.places(lambda text: self.space.index(self.space.parse(text)))
        mean = found.scores.mean(axis=0)
        scores = {self.space[index]: float(mean[place]) for index, place in places.items()}
        if len(set(scores.values())) < 2:
            raise ConfigError(f"landmarks must have an order, but {found.file} scores all {len(scores)} the same.")
        return scores

    @cached_property
    def landmarks(self) -> dict[Arch, float]:
        """The landmarks and their scores; more is better."""
        if self._given is not None:
            return self._given
        generator = torch_generator(self.seed, "landmarks")
        count = min(self.num_landmarks, self.space.num_archs)
        chosen: dict[Arch, float] = {}
        with torch.random.fork_rng(devices=[]):
            network = self.space.supernet(getattr(self.space, "in_channels", 3), getattr(self.space, "num_classes", 10))
        while len(chosen) < count:
            arch = self.space.sample(generator)
            chosen[arch] = float(count_parameters(network.child(arch)))
        if len(set(chosen.values())) < 2:
            raise ConfigError("landmarks must have an order, but all have as many parameters; give a table of scores.")
        return chosen

    @cached_property
    def pairs(self) -> list[tuple[Arch, Arch]]:
        """Every pair of landmarks that differ in their scores, the better first."""
        scores = self.landmarks
        return [(one, other) for one in scores for other in scores if scores[one] > scores[other]]

    @property
    def children_per_step(self) -> int:
        """The child whose turn it is, and two for each pair."""
        return 1 + 2 * self.num_pairs

    @property
    def mean_children_per_step(self) -> float:
        """The warm-up has one."""
        return 1 + 2 * self.num_pairs * (1 - self.warm_up)

    def check(self, recipe: Recipe) -> None:
        """Refuse landmarks without an order before anything is trained."""
        assert self.pairs

    def begin(self, size: TrainingSize) -> None:
        """The warm-up is a share of this training."""
        self._first_step = round(self.warm_up * size.num_steps)

    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The child whose turn it is, and then the pairs of the step, the better of each first."""
        if step < self._first_step:
            return [turn]
        generator = torch_generator(self.seed, "landmark pairs", step)
        drawn = torch.randint(len(self.pairs), (self.num_pairs,), generator=generator).tolist()
        return [turn, *(arch for place in drawn for arch in self.pairs[place])]

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, archs: Sequence[Arch], of_outputs: OfOutputs) -> Tensor:
        """The child's own loss, and the hinge over the pairs."""
        losses = [training_loss(network, x, y, arch, of_outputs) for arch in archs]
        if len(losses) == 1:
            return losses[0]
        hinge = order_hinge(torch.stack(losses[1::2]), torch.stack(losses[2::2]))
        return losses[0] + self.coefficient * hinge

    def told(self) -> Sequence[Arch]:
        """The landmarks of a table; an order by size tells nothing of the truth."""
        return () if self._given is None else list(self._given)

    def report(self) -> dict[str, object]:
        """Where the order came from."""
        order = "the parameters, the largest first" if self.table is None else self.table
        return {"landmarks": len(self.landmarks), "ordered_by": order}
