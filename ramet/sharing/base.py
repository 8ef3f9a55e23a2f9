"""What decides which children use which copy of the weights: the seam that every sharing implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ramet.errors import ConfigError
from ramet.registry.lines import one_line
from ramet.sharing.groups import Groups, check_groups


class Sharing(ABC):
    """Which children use which copy of the weights.

    Children are places in the lexicographic order of a space. Each group is trained on its own with one copy of the
    weights; within a group, some first cells may be shared and the rest exist once for each child.

    An author of a sharing sets ``num_groups`` and writes ``group_of``. Both answer for spaces of any size, because a
    search may have more children than any list.

    >>> from ramet.sharing import make_sharing
    >>> make_sharing("groups:2:similar").groups(5, seed=0)
    ((0, 1, 2), (3, 4))
    """

    num_groups: int = 1
    """How many groups there are."""

    num_shared_cells: int | None = None
    """Within a group, how many cells are shared (the stem always is); the whole network if none."""

    is_measured: bool = False
    """Whether the groups follow from a measurement of interference and not from the children's places alone."""

    def __repr__(self) -> str:
        return one_line(self)

    def of_options(self, num_options: Sequence[int]) -> Sharing:
        """This sharing for a space whose decisions have so many options; most need not know them."""
        return self

    @abstractmethod
    def group_of(self, place: int, num_children: int, seed: int) -> int:
        """The group, from 0, of the child at a place in its space's order; the seed is for groups that are drawn."""

    def groups(self, num_children: int, seed: int) -> Groups:
        """The groups of all children, for a space that fits into a list."""
        if self.is_measured:
            raise ConfigError("groups by interference follow from a measurement; use affinity_groups.")
        self.check(num_children)
        groups: list[list[int]] = [[] for _ in range(self.num_groups)]
        for place in range(num_children):
            group = self.group_of(place, num_children, seed)
            if not 0 <= group < self.num_groups:
                raise ConfigError(f"a child's group must be one of the {self.num_groups}, but got {group}.")
            groups[group].append(place)
        if empty := [number for number, group in enumerate(groups) if not group]:
            raise ConfigError(f"every group must have a child, but group {empty[0]} has none.")
        return tuple(tuple(group) for group in groups)

    def check(self, num_children: int) -> None:
        """Raise a ``ConfigError`` if a space has too few children for the groups."""
        check_groups(num_children, self.num_groups)

    @property
    def is_full(self) -> bool:
        """Whether all children share all weights."""
        return self.num_groups == 1 and self.num_shared_cells is None

    def __str__(self) -> str:
        return type(self).__name__
