"""Prefix sharing: one common trunk, and for each child a copy of its own of everything after it."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from ramet.errors import ConfigError


class PrefixShared(nn.Module):
    """A supernet whose first stages are shared and whose later stages exist once for each of some children.

    *Deeper insights*, section 4.3: with ``num_shared_cells`` k = 0 only the stem is shared; with k equal to the number
    of cells, all but the final linear layer is. Each copy has batch-norm statistics and, being a module of its own,
    optimizer state of its own. All copies start from the same values, as they would if they had been one module until
    now.
    """

    def __init__(self, supernet: nn.Module, archs: Sequence[Hashable], num_shared_cells: int) -> None:
        super().__init__()
        stages = list(supernet.stages)  # type: ignore[arg-type]
        num_cells = len(stages) - 2
        if num_cells < 0:
            raise ConfigError(f"prefix sharing needs a stem and a head, but this supernet has {len(stages)} stage.")
        if not 0 <= num_shared_cells <= num_cells:
            raise ConfigError(f"prefix must share between 0 and {num_cells} cells, but got {num_shared_cells}.")
        self.trunk = nn.ModuleList(stages[: 1 + num_shared_cells])
        heads = stages[1 + num_shared_cells :]
        self.copies = nn.ModuleList(nn.ModuleList(copy.deepcopy(stage) for stage in heads) for _ in archs)
        self._copy_of = {arch: place for place, arch in enumerate(archs)}

    def forward(self, x: Tensor, arch: Any) -> Tensor:
        """Logits of one child, shape [batch, classes]."""
        for stage in self.trunk:
            x = stage(x, arch)
        for stage in self.copies[self._copy_of[arch]]:  # type: ignore[attr-defined]
            x = stage(x, arch)
        return x

    def forward_all(self, x: Tensor, archs: Sequence[Hashable]) -> Iterator[Tensor]:
        """Logits of many children on one batch, in order; what they share before the first choice is computed once."""
        stem = self.trunk[0](x, archs[0])  # the stem has no choice in it: it is the same for all children
        for arch in archs:
            y = stem
            for stage in [*self.trunk[1:], *self.copies[self._copy_of[arch]]]:  # type: ignore[misc]
                y = stage(y, arch)
            yield y
