"""Architectures that need no search and must be beaten: a random one, the largest that fits, the best untrained."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from ramet.errors import ConfigError
from ramet.ranking import SCORES
from ramet.ranking.scores.aggregate import combine_ranks
from ramet.ranking.setup import SupernetSetup
from ramet.searching.costs import ArchCosts, parse_limits
from ramet.searching.plan import SearchPlan
from ramet.seeding import derive_seed, torch_generator
from ramet.spaces import Arch, Space
from ramet.spaces.extremes import find_cheapest

NUM_DRAWN = 50
"""Architectures among which the best untrained one is looked for."""
NUM_INPUTS = 16
RANDOM, LARGEST, UNTRAINED = "random", "largest that fits", "training-free best"
"""The names of the baselines."""


def find_largest(space: Space, size: Callable[[Arch], float], fits: Callable[[Arch], bool], start: Arch) -> Arch:
    """The largest architecture that fits, by changing one decision at a time; of all, where sizes add up over them.

    ``start`` must fit. A decision takes the largest option that fits, until none gets larger.
    """
    best, value, improved = start, size(start), True
    while improved:
        improved = False
        for place, options in enumerate(space.num_options):
            for option in range(options):
                arch = (*best[:place], option, *best[place + 1 :])
                if size(arch) > value and fits(arch):
                    best, value, improved = arch, size(arch), True
    return best


def fitting(costs: ArchCosts, budget: str | None) -> tuple[Callable[[Arch], bool], Arch]:
    """Whether an architecture keeps a budget, and one that does: the cheapest.

    Raises:
        ConfigError: if not even that one does.
    """
    limits = {} if budget is None else parse_limits(budget)

    def ratio(arch: Arch) -> float:
        return max((costs(name, arch) / limit for name, limit in limits.items()), default=0.0)

    refuge: Arch = find_cheapest(costs.space, ratio) if limits else tuple(0 for _ in costs.space.num_options)
    if ratio(refuge) > 1:
        raise ConfigError(f"a budget must leave at least one architecture, but {budget} leaves none.")
    return (lambda arch: ratio(arch) <= 1), refuge


def baselines(setup: SupernetSetup, plan: SearchPlan, costs: ArchCosts) -> dict[str, Arch]:
    """The baselines by name, as far as there are any: an own network may not be one that can be scored untrained."""
    space, generator = setup.space, torch_generator(plan.seed, "baselines")
    fits, refuge = fitting(costs, plan.budget)
    drawn = [space.derived(space.sample(generator)) for _ in range(4 * NUM_DRAWN)]
    drawn = [arch for arch in dict.fromkeys(drawn) if fits(arch)][:NUM_DRAWN] or [refuge]
    largest = space.derived(find_largest(space, lambda arch: costs("flops", arch), fits, refuge))
    found = {RANDOM: drawn[0], LARGEST: largest if fits(largest) else refuge}
    if (order := untrained_order(setup, plan, drawn)) is not None:
        found[UNTRAINED] = drawn[int(np.argmax(order))]
    return found


def untrained_order(setup: SupernetSetup, plan: SearchPlan, archs: Sequence[Arch]) -> Sequence[float] | None:
    """Synaptic flow and the Jacobian's covariance as one score of each architecture; none where they can't be taken."""
    x = setup.data.train.x[:NUM_INPUTS]
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or len(archs) < 2:
        return None
    try:
        network = setup.drawn_supernet(derive_seed(plan.seed, "baselines"), "training-free")
        scores = [SCORES.make(name, network, x) for name in ("synflow", "jacobian")]
        values = [[score(arch) for arch in archs] for score in scores]
        return [float(value) for value in combine_ranks(values)]
    except Exception:  # a user's own network may do anything, and a search is not lost for want of a baseline
        return None
