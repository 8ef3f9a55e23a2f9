"""The network that a search trains: one supernet, one for each group, or a trunk with a rest for each child."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.seeding import derive_seed
from ramet.sharing import PrefixShared, Sharing
from ramet.spaces import Arch, Space, Supernet

MAX_PREFIX_CHILDREN = 1024
"""Prefix sharing holds a copy for each child; a larger space would not fit into memory."""


class Grouped(nn.Module):
    """A supernet for each group of children.

    Groups are not lists here, because a space may be larger than any list: similar groups are slices of the
    lexicographic order, random ones follow from a hash of the child's place and the seed.

    Args:
        space: the architectures.
        supernet: the weights that all groups begin with.
        sharing: how many groups, and how they are made.
        seed: of random groups.
    """

    def __init__(self, space: Space, supernet: Supernet, sharing: Sharing, seed: int) -> None:
        super().__init__()
        if sharing.num_groups > space.num_archs:
            raise ConfigError(
                f"num_groups must be between 1 and the {space.num_archs} children of the space, "
                f"but got {sharing.num_groups}."
            )
        self.groups = nn.ModuleList(copy.deepcopy(supernet) for _ in range(sharing.num_groups))
        self._space, self._sharing, self._seed = space, sharing, seed

    def group_of(self, arch: Arch) -> int:
        """The group of a child."""
        place, num_groups = self._space.index(arch), self._sharing.num_groups
        if self._sharing.grouping == "random":
            return derive_seed(self._seed, "group", place) % num_groups
        return place * num_groups // self._space.num_archs

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """Logits of one child with its group's weights."""
        logits: Tensor = self.groups[self.group_of(arch)](x, arch)
        return logits


def share(space: Space, supernet: Supernet, text: str, seed: int) -> nn.Module:
    """The network of a sharing; called as ``network(x, arch)``.

    Raises:
        ConfigError: more groups than children, or prefix sharing of a space that is too large for it.
    """
    sharing = Sharing.parse(text)
    if sharing.num_shared_cells is not None:
        if space.num_archs > MAX_PREFIX_CHILDREN:
            raise ConfigError(
                f"prefix sharing holds a copy for each child, of at most {MAX_PREFIX_CHILDREN} children, "
                f"but the space has {space.num_archs}."
            )
        return PrefixShared(supernet, list(space), sharing.num_shared_cells)
    return supernet if sharing.num_groups == 1 else Grouped(space, supernet, sharing, seed)
