"""The DARTS space: a normal and a reduction cell of four nodes, eight operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, CellGraph, NetworkAlone, Space
from ramet.spaces.darts.cell import DartsCell
from ramet.spaces.darts.genotypes import Gene, read_genotype, write_genotype
from ramet.spaces.darts.two_inputs import Node, PairHead, PairStem, TwoInputSupernet, two_input_graphs
from ramet.spaces.layers import check_counts, check_momentum
from ramet.spaces.operations import DARTS_OPERATIONS, check_operations


class Darts(Space):
    """Two cells, each of nodes that add up two operations on two different inputs among all that came before.

    A cell has the outputs of the two cells before it as inputs 0 and 1; its nodes are inputs 2, 3, ... of later nodes;
    its output is the concatenation of all nodes. Cells at a third and two thirds of the depth are reduction cells,
    which halve the image and double the channels. An architecture reads as a genotype in DARTS' own form. For each node
    but the first an architecture holds the pair of inputs and then both operations; the first has only one pair.

    Departs from DARTS' search network: an operation on a path is computed alone, so that ``none`` leaves it out. As
    there, batch norms inside cells have no affine parameters and poolings are followed by one; the stem's is affine.

    Args:
        channels: width of the first cells, 16 in DARTS' search.
        num_cells: cells in all, 8 in DARTS' search.
        num_nodes: nodes of a cell, 4.
        operations: names from ``DARTS_OPERATIONS``.
        bn_momentum: momentum of every batch norm.

    >>> Darts().num_archs
    9119789245425254400
    >>> Darts(num_nodes=1, operations=["none", "skip_connect"]).name((1, 0, 0, 1))[:50]
    "Genotype(normal=[('skip_connect', 0), ('none', 1)]"

    Reference: Liu, Simonyan and Yang, DARTS: Differentiable Architecture Search, 2019.
    """

    small_sizes: ClassVar = {"channels": 8, "cells": 4}
    has_final_network = True
    calls_its_weights = True

    def __init__(
        self,
        channels: int = 16,
        num_cells: int = 8,
        num_nodes: int = 4,
        operations: Sequence[str] = DARTS_OPERATIONS,
        *,
        bn_momentum: float = 0.1,
    ) -> None:
        check_counts(channels=channels, num_cells=num_cells, num_nodes=num_nodes)
        check_momentum(bn_momentum)
        operations = tuple(operations)
        check_operations(operations, DARTS_OPERATIONS)
        if not operations or len(set(operations)) < len(operations):
            raise ConfigError(f"operations must be at least one name, each once, but got {operations}.")
        options: list[int] = []
        for node in range(num_nodes):
            options += [math.comb(node + 2, 2)] * (node > 0) + [len(operations)] * 2
        super().__init__(2 * options)
        self.channels, self.num_cells, self.num_nodes = channels, num_cells, num_nodes
        self.operations, self.bn_momentum = operations, bn_momentum

    def cells(self, arch: Arch) -> tuple[list[Node], list[Node]]:
        """The nodes of the normal and of the reduction cell: for each node twice (operation, input)."""
        return _cells(self.num_nodes, self.check(arch))

    def supernet(self, in_channels: int, num_classes: int) -> TwoInputSupernet:
        """A freshly initialised supernet; torch's global generator gives the weights."""
        check_counts(in_channels=in_channels, num_classes=num_classes)
        return TwoInputSupernet(self, darts_stages(self, in_channels, num_classes))

    def name(self, arch: Arch) -> str:
        """The architecture as a genotype in DARTS' own form."""
        normal, reduce = (
            [(self.operations[operation], start) for node in cell for operation, start in node]
            for cell in self.cells(arch)
        )
        return write_genotype(normal, reduce)

    def parse(self, text: str) -> Arch:
        """The architecture of a genotype; the two inputs of a node come in either order, and must differ."""
        choices: list[int] = []
        for genes in read_genotype(text, self.operations, self.num_nodes):
            choices += self._choices(genes)
        return tuple(choices)

    def _choices(self, genes: list[Gene]) -> list[int]:
        choices = []
        for node in range(self.num_nodes):
            (first, low), (second, high) = sorted(genes[2 * node : 2 * node + 2], key=lambda gene: gene[1])
            if low == high:
                raise ConfigError(f"a node of DARTS has two different inputs, but got input {low} twice.")
            if node > 0:
                choices.append(list(combinations(range(node + 2), 2)).index((low, high)))
            choices += [self.operations.index(first), self.operations.index(second)]
        return choices

    def final_network(self, arch: Arch, in_channels: int, num_classes: int, *, auxiliary: bool = False) -> NetworkAlone:
        """The network that DARTS trains in the end, of this space's width and depth."""
        from ramet.spaces.darts.final_network import DartsNetwork

        return DartsNetwork(self, arch, in_channels, num_classes, auxiliary=auxiliary)

    def large_network(self, arch: Arch, in_channels: int, num_classes: int, *, auxiliary: bool = False) -> NetworkAlone:
        """The network that DARTS trains on ImageNet, of this space's width and depth."""
        from ramet.spaces.darts.imagenet_network import DartsImageNetNetwork

        return DartsImageNetNetwork(self, arch, in_channels, num_classes, auxiliary=auxiliary)

    def graph(self, arch: Arch) -> list[CellGraph]:
        """The normal and the reduction cell."""
        return two_input_graphs(self.cells(arch), self.operations)

    def derived(self, arch: Arch) -> Arch:
        """The cell with skip_connect, or the first other operation, in place of ``none``, which DARTS never derives."""
        if "none" not in self.operations or len(self.operations) < 2:
            return arch
        others = [name for name in self.operations if name != "none"]
        instead = self.operations.index("skip_connect" if "skip_connect" in others else others[0])
        choices, none = iter(self.check(arch)), self.operations.index("none")
        made: list[int] = []
        for node in [*range(self.num_nodes), *range(self.num_nodes)]:
            made += [next(choices)] if node > 0 else []
            made += [instead if choice == none else choice for choice in (next(choices), next(choices))]
        return tuple(made)

    @property
    def mixed_options(self) -> tuple[int, ...]:
        """All inputs of each node are mixed: the edges of the normal, then of the reduction cell."""
        return (len(self.operations),) * (2 * sum(node + 2 for node in range(self.num_nodes)))

    def strongest(self, weights: Sequence[Tensor]) -> Arch:
        """Each node keeps the two edges whose strongest operation, ``none`` apart, is strongest."""
        choices: list[int] = []
        for cell in (weights[: len(weights) // 2], weights[len(weights) // 2 :]):
            edge = 0
            for node in range(self.num_nodes):
                best = []
                for start in range(node + 2):
                    row = cell[edge].clone()
                    if "none" in self.operations and len(self.operations) > 1:
                        row[self.operations.index("none")] = -1.0
                    best.append((-float(row.max()), start, int(row.argmax())))
                    edge += 1
                (low, first), (high, second) = sorted((start, option) for _, start, option in sorted(best)[:2])
                if node > 0:
                    choices.append(list(combinations(range(node + 2), 2)).index((low, high)))
                choices += [first, second]
        return tuple(choices)

    def describe(self) -> dict[str, Any]:
        """The arguments that make this space again."""
        return self.described_as("darts")


@lru_cache(maxsize=4096)
def _cells(num_nodes: int, arch: Arch) -> tuple[list[Node], list[Node]]:
    choices = iter(arch)
    cells: list[list[Node]] = []
    for _ in range(2):
        nodes: list[Node] = []
        for node in range(num_nodes):
            pair = next(choices) if node > 0 else 0
            low, high = list(combinations(range(node + 2), 2))[pair]
            nodes.append(((next(choices), low), (next(choices), high)))
        cells.append(nodes)
    return cells[0], cells[1]


def darts_stages(
    space: Darts, in_channels: int, num_classes: int, only: Arch | None = None, stem: nn.Module | None = None
) -> list[nn.Module]:
    """The stem, each cell, and the head; ``only`` is an architecture to build alone, with affine batch norms.

    A ``stem`` of one's own gives two outputs of the space's width, of which the newer has half the size of the older.
    """
    channels = space.channels
    older = newer = 3 * channels if stem is None else channels
    stages: list[nn.Module] = [PairStem(in_channels, newer, space.bn_momentum) if stem is None else stem]
    after_reduction = stem is not None
    for cell in range(space.num_cells):
        reduction = cell in (space.num_cells // 3, 2 * space.num_cells // 3)
        channels *= 2 if reduction else 1
        stages.append(DartsCell(space, older, newer, channels, reduction, after_reduction, only))
        older, newer, after_reduction = newer, space.num_nodes * channels, reduction
    return [*stages, PairHead(newer, num_classes)]
