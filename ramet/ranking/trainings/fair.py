"""Fair sampling: in each step every option of every decision is trained once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ramet.ranking.trainings.base import SupernetTraining
from ramet.seeding import torch_generator
from ramet.spaces import Arch


class FairTraining(SupernetTraining):
    """As many children in a step as a decision has options, such that each option is in exactly one of them.

    For each decision the options are put in a random order; the k-th child takes the k-th of each. All children see the
    same mini-batch, their gradients are added up, and one step is taken: no option is ever a step ahead of another
    (FairNAS' strict fairness).

    Departs from FairNAS where decisions have different numbers of options, which it does not treat: there are as many
    children as the most, and a decision with fewer goes through a second random order, so that no option is ahead by
    more than one in a step.

    Reference: Chu, Zhang and Xu, FairNAS: Rethinking evaluation fairness of weight sharing NAS, 2021.
    """

    @property
    def children_per_step(self) -> int:
        """The options of the decision that has most."""
        return max(self.space.num_options)

    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The children of a step, whosever turn it is."""
        generator, count = torch_generator(self.seed, "fair", step), self.children_per_step
        columns = []
        for options in self.space.num_options:
            rounds = [torch.randperm(options, generator=generator) for _ in range(-(-count // options))]
            columns.append(torch.cat(rounds)[:count].tolist())
        return list(zip(*columns, strict=True))
