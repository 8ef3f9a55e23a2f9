"""The sandwich rule for any space: the largest child teaches the smallest and some between, in each step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.ranking.trainings.base import OfOutputs, SupernetTraining
from ramet.seeding import torch_generator
from ramet.spaces import Arch, Space
from ramet.spaces.extremes import find_cheapest
from ramet.spaces.slicing.sandwich import Sandwich


class SandwichTraining(SupernetTraining):
    """In each step the child with most parameters, that with fewest, and some drawn ones, taught by the first.

    The largest learns from the labels; what it gives in this very step is what the others learn from. In an elastic
    space these are its whole and its smallest size.

    Args:
        space: the architectures.
        seed: of all draws.
        num_between: drawn children in a step; 2 in *Universally slimmable networks*.
        distillation: the share of what the largest gives in what the others learn from; labels have the rest.
        temperature: that both outputs are divided by before they are compared.

    Reference: Yu and Huang, Universally slimmable networks and improved training techniques, 2019.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        num_between: int = 2,
        distillation: float = 1.0,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(space, seed=seed)
        if num_between < 0:
            raise ConfigError(f"num_between must not be negative, but got {num_between}.")
        self.num_between = num_between
        self._sandwich = Sandwich(distillation=distillation, temperature=temperature)

    @property
    def children_per_step(self) -> int:
        """The two ends and those between."""
        return 2 + self.num_between

    @cached_property
    def ends(self) -> tuple[Arch, Arch]:
        """The largest and the smallest child."""
        whole, smallest = getattr(self.space, "whole", None), getattr(self.space, "smallest", None)
        if whole is not None and smallest is not None:
            return whole, smallest
        with torch.random.fork_rng(devices=[]):
            network = self.space.supernet(getattr(self.space, "in_channels", 3), getattr(self.space, "num_classes", 10))

        def size(arch: Arch) -> float:
            return float(count_parameters(network.child(arch)))

        return find_cheapest(self.space, lambda arch: -size(arch)), find_cheapest(self.space, size)

    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The largest first, the smallest, and those that the step draws."""
        generator = torch_generator(self.seed, "sandwich", step)
        return [*self.ends, *(self.space.sample(generator) for _ in range(self.num_between))]

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, archs: Sequence[Arch], of_outputs: OfOutputs) -> Tensor:
        """The sum of the losses, of which the first child's is that of the labels."""
        return self._sandwich.loss(network, x, y, archs, of_outputs, are_numbers=y.is_floating_point())
