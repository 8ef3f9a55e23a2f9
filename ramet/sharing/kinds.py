"""The built-in sharings: all weights, groups, and a common prefix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.seeding import derive_seed, torch_generator
from ramet.sharing.base import Sharing
from ramet.sharing.groups import random_groups

Grouping = Literal["random", "similar", "interference"]

MAX_LISTED = 2**16
"""Random groups of so many children are slices of one shuffled list; of more, they follow from a hash."""


class FullSharing(Sharing):
    """All children share all weights."""

    def group_of(self, place: int, num_children: int, seed: int) -> int:
        """The only one."""
        return 0

    def __str__(self) -> str:
        return "full"


class GroupSharing(Sharing):
    """Children are parted into groups, and each group has a copy of the weights.

    Args:
        num_groups: how many groups.
        grouping: similar (slices of the lexicographic order), random, or interference (measured; for rank only).
    """

    def __init__(self, num_groups: int, grouping: Grouping = "similar") -> None:
        if grouping not in get_args(Grouping):
            raise ConfigError(f"a grouping is one of {', '.join(get_args(Grouping))}, but got {grouping!r}.")
        self.num_groups = _count("num_groups", num_groups, least=1)
        self.grouping = grouping

    @property
    def is_measured(self) -> bool:  # type: ignore[override]
        """Whether the groups follow from a measurement."""
        return self.grouping == "interference" and self.num_groups > 1

    def group_of(self, place: int, num_children: int, seed: int) -> int:
        """A slice of the lexicographic order, or of a shuffled one."""
        if self.grouping != "random":
            return slice_of(place, num_children, self.num_groups)
        if num_children <= MAX_LISTED:
            return _labels(num_children, self.num_groups, seed)[place]
        return derive_seed(seed, "group", place) % self.num_groups

    def __str__(self) -> str:
        return "full" if self.num_groups == 1 else f"groups:{self.num_groups}:{self.grouping}"


class EdgeSharing(Sharing):
    """Children that take the same option of one decision share weights: a supernet for each operation of an edge.

    Few-shot neural architecture search (Zhao and others, 2021): children that differ in an operation disturb each other
    most there. The groups follow from the space's decisions, so that they need no list of children.

    Args:
        decision: the place of the decision in an architecture, from 0.

    >>> edge = EdgeSharing(1).of_options([2, 3])
    >>> edge.groups(6, seed=0)
    ((0, 3), (1, 4), (2, 5))
    """

    num_groups = 2
    """At least; ``of_options`` knows how many."""

    def __init__(self, decision: int) -> None:
        self.decision = _count("decision", decision, least=0)
        self._num_options: tuple[int, ...] = ()

    def of_options(self, num_options: Sequence[int]) -> Sharing:
        """The sharing that knows how many groups it has."""
        if self.decision >= len(num_options):
            raise ConfigError(
                f"an edge must be one of the {len(num_options)} decisions of the space, from 0, "
                f"but got {self.decision}."
            )
        if num_options[self.decision] < 2:
            raise ConfigError(f"an edge must have several options, but decision {self.decision} has one.")
        bound = EdgeSharing(self.decision)
        bound._num_options, bound.num_groups = tuple(num_options), num_options[self.decision]
        return bound

    def group_of(self, place: int, num_children: int, seed: int) -> int:
        """The option that the child takes of the decision."""
        if not self._num_options:
            raise ConfigError("groups by an edge follow from the decisions of a space; use of_options.")
        return place // math.prod(self._num_options[self.decision + 1 :]) % self.num_groups

    def __str__(self) -> str:
        return f"edge:{self.decision}"


class PrefixSharing(Sharing):
    """Children share the stem and the first cells, and have the rest for themselves.

    Args:
        num_shared_cells: how many cells after the stem are shared.
    """

    def __init__(self, num_shared_cells: int) -> None:
        self.num_shared_cells = _count("num_shared_cells", num_shared_cells, least=0)

    def group_of(self, place: int, num_children: int, seed: int) -> int:
        """The only one."""
        return 0

    def __str__(self) -> str:
        return f"prefix:{self.num_shared_cells}"


def slice_of(place: int, num_children: int, num_groups: int) -> int:
    """Which of equal slices a place lies in; the first ones are longer by one where they cannot all be equal.

    >>> [slice_of(place, 8, 3) for place in range(8)]
    [0, 0, 0, 1, 1, 1, 2, 2]
    """
    size, longer = divmod(num_children, num_groups)
    if place < longer * (size + 1):
        return place // (size + 1)
    return longer + (place - longer * (size + 1)) // size


@lru_cache(maxsize=8)
def _labels(num_children: int, num_groups: int, seed: int) -> list[int]:
    labels = [0] * num_children
    for group, members in enumerate(random_groups(num_children, num_groups, torch_generator(seed, "groups"))):
        for place in members:
            labels[place] = group
    return labels


def _count(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} of a sharing must be a whole number of at least {least}, but got {value!r}.")
    return value
