"""Supernets that are chains of cells, as those of ``Cells64`` and ``NasBench201`` are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from ramet.spaces.base import Arch, Space, Supernet
from ramet.spaces.child import trace_child
from ramet.spaces.layers import to_channels_last
from ramet.spaces.walk import walk_prefixes


class CellSupernet(Supernet):
    """A stem, cells of which all take the same architecture, and a head, in channels_last memory.

    Stages are the stem, the cells and what stands between them, and the head; each is called as ``stage(x, arch)``.
    """

    def __init__(self, space: Space, stages: Sequence[nn.Module]) -> None:
        super().__init__()
        self.space = space
        self.stages = nn.ModuleList(stages)
        to_channels_last(self)

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """Logits of one architecture, shape [batch, classes]."""
        return super().forward(x, self.space.check(arch))

    def child(self, arch: Arch) -> nn.Module:
        """One architecture as a ``torch.fx.GraphModule`` of ``torch.nn`` layers with a copy of its weights."""
        return trace_child(self.stages, self.space.check(arch))

    def forward_all(self, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
        """Logits of many architectures, in order; the stem and the edges of the first cell are computed once."""
        self.check_evaluation()
        return walk_prefixes(self.stages, x, [self.space.check(arch) for arch in archs])
