"""The space of 64 children of "Deeper insights into weight sharing": small enough to know the truth about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, CellGraph, Space
from ramet.spaces.cells.chain import CellSupernet
from ramet.spaces.cells.dag import DenseDag, dense_graph, edges_of
from ramet.spaces.layers import Head, check_counts, check_momentum, concatenate
from ramet.spaces.operations import check_operations, make_strided

PAPER_OPERATIONS = ("max_pool_3x3", "sep_conv_3x3", "sep_conv_5x5", "dil_conv_5x5")
OPERATIONS = (*PAPER_OPERATIONS, "dil_conv_3x3", "avg_pool_3x3", "skip_connect")
"""The operations that ``Cells64`` can be made of."""


class Cells64(Space):
    """A chain of equal cells, each a small dag with one of four operations on each edge.

    Two convolutions widen the image to ``3 * channels``. A cell squeezes its input to ``channels`` (ReLU, 1x1
    convolution, batch norm) and computes its nodes, x_j the sum over i < j of O_(i,j)(x_i) (Eq. 1). All cells of a
    child are alike. With two nodes there are three edges, so 4^3 = 64 children, named by the digits of O(0,1), O(0,2),
    O(1,2).

    Departs from the text of section 3.1, where a cell's output is the sum of its nodes: appendix A and the authors'
    code concatenate them, and so do we. The stem has no ReLU, its batch norms are affine, those inside cells are not;
    the paper leaves this open, and we follow the authors' code.

    Args:
        channels: width of a node, 16 in the paper.
        num_cells: cells in the chain, 4 in the paper.
        num_nodes: nodes of a cell besides its input, 2 in the paper.
        operations: names from ``OPERATIONS``, in the order of the digits 1, 2, ...; at most nine.
        bn_momentum: momentum of every batch norm, 0.4 in the paper (appendix A), as torch understands it.

    >>> space = Cells64()
    >>> len(space), space.name(space[59]), space.parse("434")
    (64, '434', (3, 2, 3))

    Reference: Zhang et al., "Deeper insights into weight sharing in neural architecture search", 2020.
    """

    small_sizes: ClassVar = {"channels": 8, "cells": 2}
    calls_its_weights = True

    def __init__(
        self,
        channels: int = 16,
        num_cells: int = 4,
        num_nodes: int = 2,
        operations: Sequence[str] = PAPER_OPERATIONS,
        *,
        bn_momentum: float = 0.4,
    ) -> None:
        check_momentum(bn_momentum)
        check_counts(channels=channels, num_cells=num_cells, num_nodes=num_nodes)
        operations = tuple(operations)
        if not 1 <= len(operations) <= 9 or len(set(operations)) < len(operations):
            raise ConfigError(f"operations must be one to nine different names, but got {operations}.")
        check_operations(operations, OPERATIONS)
        super().__init__([len(operations)] * len(edges_of(num_nodes)))
        self.channels, self.num_cells, self.num_nodes = channels, num_cells, num_nodes
        self.operations, self.bn_momentum = operations, bn_momentum

    def supernet(self, in_channels: int, num_classes: int) -> CellSupernet:
        """A freshly initialised supernet; torch's global generator gives the weights."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return CellSupernet(self, _stages(self, in_channels, num_classes))

    def name(self, arch: Arch) -> str:
        """The digits of an architecture, counted from 1: ``name((3, 2, 3)) == "434"``."""
        return "".join(str(choice + 1) for choice in self.check(arch))

    @property
    def option_names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The edges and their operations."""
        return tuple((f"edge {start}-{end}", self.operations) for start, end in edges_of(self.num_nodes))

    def parse(self, text: str) -> Arch:
        """The architecture of a row of digits."""
        last = len(self.operations)
        if len(text) != len(self.num_options) or not all(digit in "123456789"[:last] for digit in text):
            raise ConfigError(
                f"a child of this space is named by {len(self.num_options)} digits from 1 to {last}, but got {text!r}."
            )
        return tuple(int(digit) - 1 for digit in text)

    def graph(self, arch: Arch) -> list[CellGraph]:
        """The cell that all cells of the child are."""
        return dense_graph([self.operations[choice] for choice in self.check(arch)])

    def describe(self) -> dict[str, Any]:
        """The arguments that make this space again."""
        return self.described_as("cells64")


def _stages(space: Cells64, in_channels: int, num_classes: int) -> list[nn.Module]:
    """The stem, each cell, and the head."""
    width, joined = 3 * space.channels, space.num_nodes * space.channels
    stem = _Stem(in_channels, width, space.bn_momentum)
    cells = [_Cell(space, width if cell == 0 else joined) for cell in range(space.num_cells)]
    return [stem, *cells, Head(joined, num_classes)]


class _Stem(nn.Module):
    """Two convolutions with affine batch norms and no ReLU between, as in the authors' code."""

    def __init__(self, in_channels: int, width: int, momentum: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width, momentum=momentum),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width, momentum=momentum),
        )

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)  # See to_channels_last for the reason.
        features: Tensor = self.layers(x)  # [batch, 3 * channels, height, width]
        return features


class _Cell(nn.Module):
    def __init__(self, space: Cells64, in_channels: int) -> None:
        super().__init__()
        channels, momentum = space.channels, space.bn_momentum
        self.preprocess = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(in_channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels, momentum=momentum, affine=False),
        )
        self.dag = DenseDag(
            space.num_nodes,
            len(space.operations),
            lambda option: make_strided(space.operations[option], channels, 1, momentum, affine=False),
        )

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        return self.finish(self.dag(self.preprocess(x), arch))

    def finish(self, nodes: list[Tensor]) -> Tensor:
        return concatenate(nodes)  # [batch, num_nodes * channels, height, width]
