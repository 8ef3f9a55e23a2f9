"""Random growth: bound to a random task, with random layers anew; what similarity has to beat."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from torch import nn

from ramet.continual.methods.bind_and_grow.binding import BindingDecision
from ramet.continual.methods.bind_and_grow.graph_method import GraphMethod
from ramet.continual.methods.layer_graph_method import LayerGrowth
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.errors import ConfigError
from ramet.seeding import numpy_generator

TOLERANCE = 0.01
"""Sets of layers count as of one size when they differ by this part of a whole network."""


@dataclass(kw_only=True, eq=False)
class RandomGrowth(GraphMethod):
    """Everything as in bind-and-grow, but for the two choices, which are drawn.

    In the paper the number of new layers is drawn too (section 4). To compare at equal parameters, ``layers`` gives
    sets that were drawn for all tasks together (``draw_of_total``), or ``sizes`` the parameters that each task's
    new layers must have: the set is then drawn from those of that size, or the nearest.

    Attributes:
        sizes: parameters of the new layers, heads left out, by task; empty to draw the number of layers.
        layers: the new layers themselves, by task; only the binding is left to chance then.
        draw: another number draws other choices, with all else, first weights and mini-batches, the same.
    """

    name: ClassVar[str] = "random-growth"
    needs_probe: ClassVar[bool] = False

    sizes: dict[str, int] = field(default_factory=dict)
    layers: dict[str, list[int]] = field(default_factory=dict)
    draw: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start_weights == "probe":
            raise ConfigError(
                "random growth trains no probe, so that start_weights must be copy or fresh, but got probe."
            )

    def _decide(
        self, task: TaskData, skeleton: Template, probe: nn.Module | None
    ) -> tuple[BindingDecision, list[LayerGrowth]]:
        name = task.info.name
        generator = numpy_generator(self.seed, "random growth", self.draw, name)
        candidates = [other for other, path in self.graph_.paths.items() if path.skeleton == skeleton]
        if not candidates:
            raise ConfigError(f"random growth needs tasks of one network, but {name!r} is the only one of its own.")
        bound = candidates[int(generator.integers(len(candidates)))]
        counts = skeleton.layer_sizes()
        if name in self.layers:
            own = sorted(self.layers[name])
            if not set(own) <= set(range(len(counts))):
                raise ConfigError(f"the layers of {name!r} must be below {len(counts)}, but got {own}.")
        elif name in self.sizes:
            own = draw_of_size(counts, self.sizes[name], generator)
        else:
            number = int(generator.integers(len(counts) + 1))
            own = sorted(int(place) for place in generator.choice(len(counts), number, replace=False))
        growths = [LayerGrowth(step, place in own) for place, step in enumerate(self.graph_.path(bound).steps)]
        return BindingDecision(name, bound, None, tuple(own), reason="random"), growths


def draw_of_size(sizes: Sequence[int], goal: int, generator: np.random.Generator) -> list[int]:
    """A set of layers, drawn from all whose parameters are as near to the goal as the nearest, up to a tolerance.

    >>> draw_of_size([10, 10, 30], 30, np.random.default_rng(0))
    [2]
    """
    sets = _all_sets(len(sizes))
    misses = np.array([abs(sum(sizes[place] for place in chosen) - goal) for chosen in sets])
    near = np.flatnonzero(misses <= misses.min() + TOLERANCE * sum(sizes))
    return list(sets[int(near[generator.integers(len(near))])])


def draw_of_total(
    sizes: Sequence[int], num_tasks: int, goal: int, generator: np.random.Generator, num_draws: int = 100_000
) -> list[list[int]]:
    """Sets of layers for several tasks, drawn as in the paper, that together have the goal's parameters.

    For each task the number of layers is drawn, then the layers. What is drawn is taken if its parameters are the
    goal's up to the tolerance; otherwise all is drawn again. After ``num_draws`` the nearest is taken.

    >>> draw_of_total([10, 10, 30], 2, 100, np.random.default_rng(0))
    [[0, 1, 2], [0, 1, 2]]
    """
    sets = _all_sets(len(sizes))
    chances = np.array([1 / (len(sizes) + 1) / math.comb(len(sizes), len(chosen)) for chosen in sets])
    totals = np.array([sum(sizes[place] for place in chosen) for chosen in sets])
    drawn = generator.choice(len(sets), size=(num_draws, num_tasks), p=chances)
    misses = np.abs(totals[drawn].sum(axis=1) - goal)
    near = np.flatnonzero(misses <= TOLERANCE * sum(sizes))
    row = drawn[near[0] if len(near) else misses.argmin()]
    return [list(sets[number]) for number in row]


def _all_sets(num_layers: int) -> list[tuple[int, ...]]:
    return [chosen for count in range(num_layers + 1) for chosen in itertools.combinations(range(num_layers), count)]
