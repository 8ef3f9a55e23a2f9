"""The micro space of ENAS: a normal and a reduction cell whose nodes add two operations on any inputs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, CellGraph, NetworkAlone, Space
from ramet.spaces.cells.dag import add
from ramet.spaces.darts.two_inputs import (
    Node,
    Pair,
    PairHead,
    PairStem,
    TwoInputSupernet,
    run_operation,
    two_input_graphs,
)
from ramet.spaces.layers import check_counts, check_momentum
from ramet.spaces.operations import FactorisedReduction, make_strided, squeeze

OPERATIONS = ("sep_conv_3x3", "sep_conv_5x5", "avg_pool_3x3", "max_pool_3x3", "skip_connect")


class EnasMicro(Space):
    """Three rows of normal cells with a reduction cell before the second and the third.

    A node adds up two operations, each on any of the two inputs and the earlier nodes; both may be on the same. The
    nodes that no other uses are the cell's output: each passes a 1x1 convolution of its own, and their sum a batch
    norm, which is ENAS' 1x1 convolution of their concatenation with weights chosen by node. A reduction cell is a cell
    of stride 1 after a factorised reduction. An architecture reads as ENAS prints it: for each node input, operation,
    input, operation; the normal cell, a bar, the reduction cell.

    Args:
        channels: width of the first row, 20 in ENAS' search.
        cells_per_stage: normal cells in each row, 2 in ENAS' search.
        num_nodes: nodes of a cell, 5.
        bn_momentum: momentum of every batch norm.

    >>> EnasMicro(num_nodes=1).name((0, 3, 1, 4, 1, 0, 1, 2))
    '0 3 1 4 | 1 0 1 2'

    Reference: Pham et al., Efficient Neural Architecture Search via Parameter Sharing, 2018.
    """

    size_names: ClassVar = {"channels": "channels", "cells": "cells_per_stage", "nodes": "num_nodes"}
    small_sizes: ClassVar = {"channels": 8, "cells": 1}
    has_final_network = True
    calls_its_weights = True

    def __init__(
        self, channels: int = 20, cells_per_stage: int = 2, num_nodes: int = 5, *, bn_momentum: float = 0.1
    ) -> None:
        check_counts(channels=channels, cells_per_stage=cells_per_stage, num_nodes=num_nodes)
        check_momentum(bn_momentum)
        options = [n for node in range(num_nodes) for n in (node + 2, len(OPERATIONS)) * 2]
        super().__init__(2 * options)
        self.channels, self.cells_per_stage, self.num_nodes = channels, cells_per_stage, num_nodes
        self.operations, self.bn_momentum = OPERATIONS, bn_momentum

    def cells(self, arch: Arch) -> tuple[list[Node], list[Node]]:
        """The nodes of the normal and of the reduction cell: for each node twice (operation, input)."""
        return _cells(self.num_nodes, self.check(arch))

    def supernet(self, in_channels: int, num_classes: int) -> TwoInputSupernet:
        """A freshly initialised supernet; torch's global generator gives the weights."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        channels, momentum = self.channels, self.bn_momentum
        older = newer = 3 * channels
        stages: list[nn.Module] = [PairStem(in_channels, newer, momentum)]
        for row in range(3):
            if row > 0:
                channels *= 2
                stages.append(_EnasReduction(newer, channels, momentum))
                older, newer = newer, channels
                stages.append(EnasCell(self, older, newer, channels, reduction=True, larger=True))
                older, newer = newer, channels
            for _ in range(self.cells_per_stage):
                stages.append(EnasCell(self, older, newer, channels, reduction=False, larger=False))
                older, newer = newer, channels
        return TwoInputSupernet(self, [*stages, PairHead(newer, num_classes)])

    def name(self, arch: Arch) -> str:
        """The architecture as ENAS prints it."""
        half = len(self.check(arch)) // 2
        return " | ".join(" ".join(map(str, part)) for part in (arch[:half], arch[half:]))

    def parse(self, text: str) -> Arch:
        """The architecture of two rows of numbers with a bar between."""
        parts = text.replace(" | ", " ").split(" ")
        arch = tuple(int(part) if part.isdecimal() and part.isascii() else -1 for part in parts)
        if arch not in self or self.name(arch) != text:
            raise ConfigError(
                f"an architecture of this space is two rows of {len(self.num_options) // 2} numbers with ' | ' "
                "between, "
                f"input, operation (below {len(OPERATIONS)}), input, operation for each node, but got {text!r}."
            )
        return arch

    def final_network(self, arch: Arch, in_channels: int, num_classes: int, *, auxiliary: bool = False) -> NetworkAlone:
        """The network that ENAS trains in the end, of this space's width and depth."""
        from ramet.spaces.darts.final_network import EnasNetwork

        return EnasNetwork(self, arch, in_channels, num_classes, auxiliary=auxiliary)

    def graph(self, arch: Arch) -> list[CellGraph]:
        """The normal and the reduction cell."""
        return two_input_graphs(self.cells(arch), self.operations)

    def describe(self) -> dict[str, Any]:
        """The arguments that make this space again."""
        return self.described_as("enas-micro")


@lru_cache(maxsize=4096)
def _cells(num_nodes: int, arch: Arch) -> tuple[list[Node], list[Node]]:
    nodes: list[Node] = []
    for place in range(0, len(arch), 4):
        first, operation, second, other = arch[place : place + 4]
        nodes.append(((operation, first), (other, second)))
    return nodes[:num_nodes], nodes[num_nodes:]


class _EnasReduction(nn.Module):
    """Halves the newer output; the older one becomes what the newer one was."""

    def __init__(self, in_channels: int, out_channels: int, momentum: float) -> None:
        super().__init__()
        self.reduce = FactorisedReduction(in_channels, out_channels, momentum, affine=True)

    def forward(self, pair: Pair, arch: Arch) -> Pair:
        return pair[1], self.reduce(pair[1])


class EnasCell(nn.Module):
    """One cell; see ``EnasMicro`` for what it computes."""

    def __init__(
        self, space: EnasMicro, older: int, newer: int, channels: int, *, reduction: bool, larger: bool
    ) -> None:
        super().__init__()
        self.space, self.reduction = space, reduction
        self.drop_path = 0.0
        momentum = space.bn_momentum
        older_input = FactorisedReduction if larger else squeeze
        self.preprocess_older: nn.Module = older_input(older, channels, momentum, True)
        self.preprocess_newer = squeeze(newer, channels, momentum, True)
        self.edges = nn.ModuleDict()
        self.outputs = nn.ModuleList()
        for node in range(space.num_nodes):
            for side in ("a", "b"):
                for start in range(node + 2):
                    made = [make_strided(name, channels, 1, momentum, affine=True) for name in OPERATIONS]
                    self.edges[f"{start}to{node + 2}{side}"] = nn.ModuleList(part for part in made if part is not None)
            self.outputs.append(nn.Conv2d(channels, channels, 1, bias=False))
        self.relu = nn.ReLU()
        self.norm = nn.BatchNorm2d(channels, momentum=momentum)

    def forward(self, pair: Pair, arch: Arch) -> Pair:
        """The newer input and the cell's output."""
        values: list[Tensor] = [self.preprocess_older(pair[0]), self.preprocess_newer(pair[1])]
        nodes = self.space.cells(arch)[self.reduction]
        for number, ((first, left), (second, right)) in enumerate(nodes):
            one = self._edge(f"{left}to{number + 2}a", first, values[left])
            values.append(one + self._edge(f"{right}to{number + 2}b", second, values[right]))
        used = {start for node in nodes for _, start in node}
        total: Tensor | None = None
        for number, convolution in enumerate(self.outputs):
            if number + 2 not in used:
                total = add(total, convolution(self.relu(values[number + 2])))
        assert total is not None, "the last node is used by none"
        return pair[1], self.norm(total)

    def _edge(self, name: str, option: int, x: Tensor) -> Tensor:
        operation = self.edges[name][option]  # type: ignore[index]
        return run_operation(operation, x, self.drop_path if self.training else 0.0)
