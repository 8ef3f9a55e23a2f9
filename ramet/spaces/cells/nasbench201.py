"""The NAS-Bench-201 space: 15,625 cells for which the accuracy of the trained network is known from a table."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, CellGraph, Space
from ramet.spaces.cells.chain import CellSupernet
from ramet.spaces.cells.dag import DenseDag, dense_graph, edges_of
from ramet.spaces.cells.live_part import live_part
from ramet.spaces.layers import Head, Stem, check_counts, check_momentum

NONE, SKIP, CONV_1X1, CONV_3X3, POOL = range(5)
_NAMES = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
_NUM_NODES = 3  # besides the input, which the notation calls node 0
_EDGE = re.compile(r"\|?([a-z0-9_]+)~([0-9])\|")


class NasBench201(Space):
    """Three rows of equal cells with reductions between; a cell has four nodes, six edges and five operations.

    The operations are none, skip_connect, nor_conv_1x1, nor_conv_3x3 and avg_pool_3x3, in this order. A cell's output
    is its last node. An edge that takes ``none`` is left out; a node that nothing reaches holds zeros. As in the
    benchmark, an operation whose result reaches no output stays in the child and in its parameter count.

    Departs from the benchmark's code in one way: batch norms of the supernet are those of the stand-alone network
    (affine, with running statistics), so that a child is the benchmark's network; the benchmark's weight-sharing
    baselines use batch norms without either.

    Args:
        channels: width of the first row, 16 in the benchmark; each reduction doubles it.
        cells_per_stage: cells in each of the three rows, 5 in the benchmark.
        bn_momentum: momentum of every batch norm, 0.1 in the benchmark.

    >>> space = NasBench201()
    >>> len(space)
    15625
    >>> space.name((3, 0, 1, 4, 4, 2))
    '|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|avg_pool_3x3~1|nor_conv_1x1~2|'

    Reference:
        Dong and Yang, "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search", 2020.
    """

    size_names: ClassVar = {"channels": "channels", "cells": "cells_per_stage"}
    small_sizes: ClassVar = {"channels": 8, "cells": 1}
    calls_its_weights = True

    def __init__(self, channels: int = 16, cells_per_stage: int = 5, *, bn_momentum: float = 0.1) -> None:
        check_counts(channels=channels, cells_per_stage=cells_per_stage)
        check_momentum(bn_momentum)
        super().__init__([len(_NAMES)] * len(edges_of(_NUM_NODES)))
        self.channels, self.cells_per_stage, self.bn_momentum = channels, cells_per_stage, bn_momentum

    def supernet(self, in_channels: int, num_classes: int) -> CellSupernet:
        """A freshly initialised supernet; torch's global generator gives the weights."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return CellSupernet(self, _stages(self, in_channels, num_classes))

    def name(self, arch: Arch) -> str:
        """The benchmark's own notation of an architecture."""
        nodes: list[str] = [""] * _NUM_NODES
        for choice, (start, end) in zip(self.check(arch), edges_of(_NUM_NODES), strict=True):
            nodes[end - 1] += f"|{_NAMES[choice]}~{start}"
        return "|+".join(nodes) + "|"

    @property
    def option_names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The edges and their operations."""
        return tuple((f"edge {start}-{end}", _NAMES) for start, end in edges_of(_NUM_NODES))

    def parse(self, text: str) -> Arch:
        """The architecture of the benchmark's notation; a ``ConfigError`` for a text that ``name`` does not give."""
        found = _EDGE.findall(text)
        arch = tuple(_NAMES.index(operation) if operation in _NAMES else -1 for operation, _ in found)
        if arch not in self or self.name(arch) != text:
            raise ConfigError(
                "an architecture of NAS-Bench-201 reads |op~0|+|op~0|op~1|+|op~0|op~1|op~2| "
                f"with operations from {', '.join(_NAMES)}, but got {text!r}."
            )
        return arch

    def graph(self, arch: Arch) -> list[CellGraph]:
        """The cell that all cells of the child are."""
        return dense_graph([_NAMES[choice] for choice in self.check(arch)])

    def function_of(self, arch: Arch) -> str:
        """The live part of the cell: 4,930 differ among the 15,625."""
        return live_part(self.check(arch), _NUM_NODES, none=NONE, skip=SKIP)

    def describe(self) -> dict[str, Any]:
        """The arguments that make this space again."""
        return self.described_as("nasbench201")


def _stages(space: NasBench201, in_channels: int, num_classes: int) -> list[nn.Module]:
    """The stem, each cell, each reduction, and the head."""
    channels, momentum = space.channels, space.bn_momentum
    stages: list[nn.Module] = [Stem(in_channels, channels, momentum)]
    for row in range(3):
        if row > 0:
            stages.append(_Reduction(channels, momentum))
            channels *= 2
        stages.extend(_BenchmarkCell(channels, momentum) for _ in range(space.cells_per_stage))
    last = [nn.BatchNorm2d(channels, momentum=momentum), nn.ReLU()]
    return [*stages, Head(channels, num_classes, *last)]


def _convolution(in_channels: int, out_channels: int, kernel: int, momentum: float, stride: int = 1) -> nn.Sequential:
    """ReLU, convolution, affine batch norm: the benchmark's only form of convolution."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(out_channels, momentum=momentum),
    )


def _make_operation(option: int, channels: int, momentum: float) -> nn.Module | None:
    if option == NONE:
        return None
    if option == SKIP:
        return nn.Identity()
    if option == POOL:
        return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return _convolution(channels, channels, 1 if option == CONV_1X1 else 3, momentum)


class _BenchmarkCell(nn.Module):
    def __init__(self, channels: int, momentum: float) -> None:
        super().__init__()
        self.preprocess = nn.Identity()
        self.dag = DenseDag(_NUM_NODES, len(_NAMES), lambda option: _make_operation(option, channels, momentum))

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        return self.finish(self.dag(x, arch))

    def finish(self, nodes: list[Tensor]) -> Tensor:
        return nodes[-1]


class _Reduction(nn.Module):
    """A residual block that halves height and width and doubles the channels."""

    def __init__(self, channels: int, momentum: float) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            _convolution(channels, 2 * channels, 3, momentum, stride=2),
            _convolution(2 * channels, 2 * channels, 3, momentum),
        )
        self.shortcut = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(channels, 2 * channels, 1, bias=False))

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        total: Tensor = self.shortcut(x) + self.convolutions(x)  # [batch, 2 * channels, height / 2, width / 2]
        return total
