"""The network that a search trains: one supernet, one for each group, or a trunk with a rest for each child."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.sharing import PrefixShared, Sharing, SharingSource, make_sharing
from ramet.spaces import Arch, Space, Supernet

MAX_PREFIX_CHILDREN = 1024
"""Prefix sharing holds a copy for each child; a larger space would not fit into memory."""


class Grouped(nn.Module):
    """A supernet for each group of children, which begin with the same weights; the sharing makes the groups."""

    def __init__(self, space: Space, supernet: Supernet, sharing: Sharing, seed: int) -> None:
        super().__init__()
        sharing.check(space.num_archs)
        self.groups = nn.ModuleList(copy.deepcopy(supernet) for _ in range(sharing.num_groups))
        self._space, self._sharing, self._seed = space, sharing, seed

    def group_of(self, arch: Arch) -> int:
        """The group of a child."""
        return self._sharing.group_of(self._space.index(arch), self._space.num_archs, self._seed)

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """Logits of one child with its group's weights."""
        logits: Tensor = self.groups[self.group_of(arch)](x, arch)
        return logits


def share(space: Space, supernet: Supernet, source: SharingSource, seed: int) -> nn.Module:
    """The network of a sharing; called as ``network(x, arch)``."""
    sharing = make_sharing(source).of_options(space.num_options)
    if sharing.is_measured:
        raise ConfigError(f"a search has no measured groups, but got {sharing}.")
    if sharing.num_shared_cells is not None:
        if sharing.num_groups > 1:
            raise ConfigError(f"a search shares a prefix among all children, but got {sharing.num_groups} groups.")
        if space.num_archs > MAX_PREFIX_CHILDREN:
            raise ConfigError(
                f"prefix sharing holds a copy for each child, of at most {MAX_PREFIX_CHILDREN} children, "
                f"but the space has {space.num_archs}."
            )
        return PrefixShared(supernet, list(space), sharing.num_shared_cells)
    return supernet if sharing.is_full else Grouped(space, supernet, sharing, seed)
