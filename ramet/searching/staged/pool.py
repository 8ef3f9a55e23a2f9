"""The architectures that a staged search looks at: one of each function, within the limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import torch

from ramet.errors import ConfigError
from ramet.spaces import Arch, Space

TRIES = 50
"""Draws for each new architecture that is wanted, before a space counts as exhausted."""


def distinct(space: Space, archs: Iterable[Arch], known: Iterable[Arch] = ()) -> list[Arch]:
    """The first architecture of each function, in order, without those of functions that are known."""
    seen: set[Hashable] = {space.function_of(arch) for arch in known}
    found = []
    for arch in archs:
        function = space.function_of(arch)
        if function not in seen:
            seen.add(function)
            found.append(arch)
    return found


def first_pool(space: Space, size: int, fits: Callable[[Arch], bool], generator: torch.Generator) -> list[Arch]:
    """All distinct architectures that fit, in a random order; of a space with more than ``size``, some that are drawn.

    The order is random because a search may run out of time before it has scored all.

    Raises:
        ConfigError: if none fits.
    """
    if space.num_archs <= size:
        archs = [arch for arch in distinct(space, map(space.derived, space)) if fits(arch)]
        archs = [archs[place] for place in torch.randperm(len(archs), generator=generator).tolist()]
    else:
        archs = _drawn(space, size, fits, lambda: space.derived(space.sample(generator)), [])
    if not archs:
        raise ConfigError("a budget must leave at least one architecture, but none of those drawn keeps its limits.")
    return archs


def changed_pool(
    space: Space,
    best: Sequence[Arch],
    known: Sequence[Arch],
    size: int,
    fits: Callable[[Arch], bool],
    generator: torch.Generator,
) -> list[Arch]:
    """New architectures that differ in one decision from one of the best, drawn uniformly."""

    def change() -> Arch:
        arch = list(best[int(torch.randint(len(best), (), generator=generator))])
        place = int(torch.randint(len(arch), (), generator=generator))
        arch[place] = int(torch.randint(space.num_options[place], (), generator=generator))
        return space.derived(tuple(arch))

    return _drawn(space, size, fits, change, known)


def _drawn(
    space: Space, size: int, fits: Callable[[Arch], bool], draw: Callable[[], Arch], known: Sequence[Arch]
) -> list[Arch]:
    seen: set[Hashable] = {space.function_of(arch) for arch in known}
    found: list[Arch] = []
    for _ in range(TRIES * size):
        arch = draw()
        function = space.function_of(arch)
        if function in seen:
            continue
        seen.add(function)
        if fits(arch):
            found.append(arch)
        if len(found) == size:
            break
    return found
