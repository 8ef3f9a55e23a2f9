"""Supernets of cells that take the outputs of the two cells before them, as those of DARTS and ENAS do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.spaces.base import Arch, CellGraph
from ramet.spaces.cells.chain import CellSupernet
from ramet.spaces.layers import Stem

Node = tuple[tuple[int, int], tuple[int, int]]
"""What a node adds up: twice an operation and the input that it is applied to."""
Pair = tuple[Tensor, Tensor]
"""The outputs of the last two cells, the older one first: what goes from stage to stage."""


def two_input_graphs(cells: tuple[Sequence[Node], Sequence[Node]], operations: Sequence[str]) -> list[CellGraph]:
    """The pictures of a normal and a reduction cell; ``none`` is left out."""
    graphs = []
    for title, nodes in zip(("Normal cell", "Reduction cell"), cells, strict=True):
        drawn = [("0", "cell before the last"), ("1", "last cell")]
        drawn += [(str(node), f"node {node}") for node in range(2, 2 + len(nodes))]
        edges = [
            (str(start), str(end), operations[operation])
            for end, node in enumerate(nodes, start=2)
            for operation, start in node
            if operations[operation] != "none"
        ]
        graphs.append(CellGraph(title, tuple(drawn), tuple(edges)))
    return graphs


class TwoInputSupernet(CellSupernet):
    """A stem, cells and a head, in channels_last memory; stages hand a pair of tensors on to the head."""

    def forward_all(self, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
        """Logits of many architectures, in order; the stem is computed once."""
        self.check_evaluation()
        archs = [self.space.check(arch) for arch in archs]
        return self._after_stem(self.stages[0](x, archs[0]), archs) if archs else iter(())

    def _after_stem(self, pair: Any, archs: Sequence[Arch]) -> Iterator[Tensor]:
        for arch in archs:
            y = pair
            for stage in list(self.stages)[1:]:
                y = stage(y, arch)
            yield y


class PairStem(Stem):
    """A 3x3 convolution and a batch norm; both inputs of the first cell are its output."""

    def forward(self, x: Tensor, arch: Arch) -> Pair:  # type: ignore[override]
        """From [batch, in, height, width] to twice [batch, channels, height, width]."""
        features = super().forward(x, arch)
        return features, features


class PairHead(nn.Module):
    """Global average pooling of the newer output, and a linear layer."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, num_classes)

    def forward(self, pair: Pair, arch: Arch) -> Tensor:
        """Logits, shape [batch, classes]."""
        logits: Tensor = self.linear(pair[1].mean((2, 3)))
        return logits


def run_operation(operation: nn.Module, x: Tensor, drop_path: float) -> Tensor:
    """What an operation makes of images; drop-path leaves some out, others make up for it, and a skip always stays."""
    value: Tensor = operation(x)
    if drop_path > 0 and not isinstance(operation, nn.Identity):
        kept = torch.rand(len(value), 1, 1, 1, device=value.device) >= drop_path
        value = value * (kept / (1 - drop_path))
    return value
