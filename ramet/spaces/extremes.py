"""The architecture at an end of a space: the cheapest of all, found without looking at all."""

from __future__ import annotations

from collections.abc import Callable

from ramet.spaces.base import Arch, Space


def find_cheapest(space: Space, cost: Callable[[Arch], float]) -> Arch:
    """The cheapest architecture by changing one decision at a time; of all there are, where costs add up over them."""
    best: Arch = tuple(0 for _ in space.num_options)
    value, improved = cost(best), True
    while improved:
        improved = False
        for place, options in enumerate(space.num_options):
            for option in range(options):
                arch = (*best[:place], option, *best[place + 1 :])
                if cost(arch) < value:
                    best, value, improved = arch, cost(arch), True
    return best
