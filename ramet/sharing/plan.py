"""A sharing in words, ``groups:8:similar`` or ``prefix:2``, and what it means for a list of children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from ramet.errors import ConfigError
from ramet.seeding import torch_generator
from ramet.sharing.groups import Groups, random_groups, similar_groups

Grouping = Literal["random", "similar", "interference"]


@dataclass(frozen=True)
class Sharing:
    """Which children use which copy of the weights.

    Args:
        num_groups: how many groups; each is trained on its own with one copy of the weights.
        grouping: how the groups are made.
        num_shared_cells: within a group, how many cells are shared (the stem always is); all of the network if none.
    """

    num_groups: int = 1
    grouping: Grouping = "similar"
    num_shared_cells: int | None = None

    @classmethod
    def parse(cls, text: str) -> Sharing:
        """The sharing of a text.

        >>> Sharing.parse("full")
        Sharing(num_groups=1, grouping='similar', num_shared_cells=None)
        >>> Sharing.parse("groups:8:random").num_groups
        8
        >>> str(Sharing.parse("prefix:2"))
        'prefix:2'
        """
        kind, *rest = text.split(":")
        try:
            if kind == "full" and not rest:
                return cls()
            if kind == "prefix" and len(rest) == 1:
                return cls(num_shared_cells=_count(rest[0], least=0))
            if kind == "groups" and len(rest) in (1, 2):
                grouping = rest[1] if len(rest) == 2 else "similar"
                if grouping in get_args(Grouping):
                    return cls(num_groups=_count(rest[0], least=1), grouping=cast(Grouping, grouping))
        except ValueError:
            pass
        raise ConfigError(
            "sharing must be full, groups:M:similar, groups:M:random, groups:M:interference (M at least 1) "
            f"or prefix:K (K at least 0), but got {text!r}."
        )

    def __str__(self) -> str:
        if self.num_shared_cells is not None:
            return f"prefix:{self.num_shared_cells}"
        return "full" if self.num_groups == 1 else f"groups:{self.num_groups}:{self.grouping}"

    @property
    def measured(self) -> bool:
        """Whether the groups follow from a measurement and not from the children's names alone."""
        return self.grouping == "interference" and self.num_groups > 1

    def groups(self, num_children: int, seed: int) -> Groups:
        """The groups of children; a measured grouping has none before the measurement."""
        if self.measured:
            raise ConfigError("groups by interference follow from a measurement; use affinity_groups.")
        if self.grouping == "random":
            return random_groups(num_children, self.num_groups, torch_generator(seed, "groups"))
        return similar_groups(num_children, self.num_groups)


def _count(text: str, least: int) -> int:
    value = int(text)
    if value < least:
        raise ValueError(text)
    return value
