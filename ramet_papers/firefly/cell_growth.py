"""Cells grown into an architecture: thin operations side by side, of which the one that grows widest wins.

Section 3 and appendix B.3 of the Firefly paper. A DARTS-like cell has a separable and a dilated convolution of each
kernel size on every edge. The last convolution of each starts thin and can grow; a linear transform behind it brings it
to the edge's width, so that all of an edge can be summed. Cells grow in turn. In the end each edge keeps the operation
with the most channels, or becomes the identity if none of them has grown by a fifth; the final network stacks these
cells at full width and is trained anew.

Departs from the paper where it is silent: all edges of a cell are kept, as in the search network, and a cell's output
is the concatenation of its nodes brought back to its width by a 1x1 convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.growth.budget import Budget
from ramet.growth.history import History
from ramet.growth.loop import grow
from ramet.growth.methods.firefly import Firefly
from ramet.seeding import derive_seed
from ramet.training import Settings
from ramet_papers.firefly.choice import PAPERS_CHOICE

OPERATIONS = ("sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5")
"""What stands on every edge; ``identity`` is what an edge without growth becomes."""

Genotype = tuple[str, ...]
"""The operation of each edge of a cell, in the order of ``edges_of``."""


def edges_of(num_nodes: int) -> list[tuple[int, int]]:
    """The edges of a cell as (from, to): 0 and 1 are its inputs, nodes follow, each fed by all before it.

    >>> edges_of(2)
    [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    """
    return [(source, node) for node in range(2, 2 + num_nodes) for source in range(node)]


class Operation(nn.Module):
    """One operation of an edge: a separable (twice) or dilated (once) convolution, its last layer free to grow.

    That layer begins with ``width`` channels, and a linear transform brings them to the edge's ``out_channels``.
    """

    def __init__(self, name: str, in_channels: int, width: int, out_channels: int, stride: int) -> None:
        super().__init__()
        if name not in OPERATIONS:
            raise ConfigError(f"an operation is one of {', '.join(OPERATIONS)}, but got {name!r}.")
        kernel, dilation = int(name[-1]), 2 if name.startswith("dil") else 1
        padding = dilation * (kernel // 2)
        self.depthwise = nn.Conv2d(
            in_channels, in_channels, kernel, stride, padding, dilation, groups=in_channels, bias=False
        )
        self.middle: nn.Module = nn.Identity()
        if name.startswith("sep"):
            self.middle = nn.Sequential(
                nn.Conv2d(in_channels, in_channels, 1, bias=False),
                nn.BatchNorm2d(in_channels),
                nn.ReLU(),
                nn.Conv2d(in_channels, in_channels, kernel, padding=kernel // 2, groups=in_channels, bias=False),
            )
        self.last = nn.Conv2d(in_channels, width, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.transform = nn.Conv2d(width, out_channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """What the edge gets from this operation."""
        result: Tensor = self.transform(self.norm(self.last(self.middle(self.depthwise(torch.relu(x))))))
        return result


class Identity(nn.Module):
    """An edge that passes on what it gets, strided and fitted to the edge's width where it must be."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        fits = stride == 1 and in_channels == out_channels
        self.fit = nn.Identity() if fits else nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The input itself, if it fits."""
        result: Tensor = self.fit(x)
        return result


class GrownCell(nn.Module):
    """A cell: on every edge the sum of the operations that are named for it.

    Their last convolutions start with ``width`` channels; its two inputs have ``in_channels`` each, its nodes
    ``channels``, and the edges from its inputs a ``stride``.
    """

    def __init__(
        self,
        operations: Sequence[Sequence[str]],
        in_channels: tuple[int, int],
        width: int,
        channels: int,
        stride: int,
        num_nodes: int,
    ) -> None:
        super().__init__()
        self.num_nodes = num_nodes
        self.edges = nn.ModuleList()
        for (source, _), names in zip(edges_of(num_nodes), operations, strict=True):
            inputs = in_channels[source] if source < 2 else channels
            step = stride if source < 2 else 1
            self.edges.append(
                nn.ModuleList(
                    Identity(inputs, channels, step)
                    if name == "identity"
                    else Operation(name, inputs, width, channels, step)
                    for name in names
                )
            )
        self.join = nn.Conv2d(num_nodes * channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The joined nodes."""
        states = [first, second]
        edges = iter(self.edges)
        for node in range(2, 2 + self.num_nodes):
            total: Tensor | None = None
            for source in range(node):
                for operation in next(edges):  # type: ignore[attr-defined]
                    part = operation(states[source])
                    total = part if total is None else total + part
            assert total is not None
            states.append(total)
        result: Tensor = self.norm(self.join(torch.cat(states[2:], 1)))
        return result


class CellNetwork(nn.Module):
    """A stem, cells one after another, and a head; a cell sees the two before it.

    Args:
        operations: for each cell, for each edge, the names of its operations.
        widths: for each cell, what the last convolutions start with.
        channels: for each cell, of its nodes.
        reductions: the cells with stride 2.
        in_channels: of the images.
        num_classes: of the head.
        num_nodes: of each cell, 4 in DARTS.
    """

    def __init__(
        self,
        operations: Sequence[Sequence[Sequence[str]]],
        widths: Sequence[int],
        channels: Sequence[int],
        reductions: Sequence[int],
        in_channels: int,
        num_classes: int,
        num_nodes: int = 4,
    ) -> None:
        super().__init__()
        if not len(operations) == len(widths) == len(channels):
            sizes = (len(operations), len(widths), len(channels))
            raise ConfigError(f"operations, widths and channels must be given for each cell, but got {sizes}.")
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, channels[0], 3, padding=1, bias=False), nn.BatchNorm2d(channels[0])
        )
        self.cells, self.fits = nn.ModuleList(), nn.ModuleList()
        before = (channels[0], channels[0])
        shrunk = False
        for number, (names, width, size) in enumerate(zip(operations, widths, channels, strict=True)):
            stride = 2 if number in reductions else 1
            # The input from two cells back is larger if the cell in between has reduced.
            self.fits.append(nn.AvgPool2d(2) if shrunk else nn.Identity())
            self.cells.append(GrownCell(names, before, width, size, stride, num_nodes))
            before, shrunk = (before[1], size), stride == 2
        self.head = nn.Linear(channels[-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape [batch, classes]."""
        first = second = self.stem(x)
        for fit, cell in zip(self.fits, self.cells, strict=True):
            first, second = second, cell(fit(first), second)
        result: Tensor = self.head(second.mean((2, 3)))
        return result


@dataclass(frozen=True)
class CellSearch:
    """The numbers of a search; the defaults are those of B.3."""

    widths: tuple[int, ...] = (4, 8, 8, 16, 16)  # of the operations of each cell at first
    channels: tuple[int, ...] = (16, 32, 32, 64, 64)  # of each cell's nodes
    reductions: tuple[int, ...] = (1, 3)  # the second and the fourth cell
    num_nodes: int = 4  # of each cell
    rounds: int = 2  # how often every cell grows
    num_new: tuple[int, ...] = (4, 8, 8, 16, 16)  # new candidates for each operation; those of each cell in B.3
    share: float = 0.25  # of the cell's units that a growth adds
    least_growth: float = 0.2  # an edge whose operations all grow less than this becomes the identity


def search_network(search: CellSearch, in_channels: int, num_classes: int) -> CellNetwork:
    """The thin network that a search starts from, every operation on every edge."""
    names = [[OPERATIONS] * len(edges_of(search.num_nodes))] * len(search.widths)
    return CellNetwork(
        names, search.widths, search.channels, search.reductions, in_channels, num_classes, search.num_nodes
    )


def widths_of(network: CellNetwork) -> list[list[dict[str, int]]]:
    """For each cell and edge, the channels of each operation's last convolution."""
    result = []
    for cell in network.cells:
        edges: Any = cell.edges
        result.append(
            [{name: op.last.out_channels for name, op in zip(OPERATIONS, edge, strict=True)} for edge in edges]
        )
    return result


def grow_cells(
    network: CellNetwork,
    data: Any,
    search: CellSearch,
    *,
    settings: Settings | None = None,
    num_epochs: float = 5.0,
    num_steps: int | None = None,
    epsilon: float = 0.1,
    seed: int = 0,
) -> tuple[CellNetwork, list[History]]:
    """Grow the cells of a copy in turn, each by a share of its units; ``settings`` train before and after each growth.

    Candidates are trained for ``num_epochs`` passes over the data, 5 in B.3, or for ``num_steps`` mini-batches. Gives
    the network and a history for each growth.
    """
    histories = []
    for number in range(search.rounds * len(network.cells)):
        cell = number % len(network.cells)
        names = tuple(
            f"cells.{cell}.edges.{edge}.{op}.last"
            for edge in range(len(edges_of(search.num_nodes)))
            for op in range(len(OPERATIONS))
        )
        units = sum(width for edge in widths_of(network)[cell] for width in edge.values())
        method = Firefly(
            num_new=search.num_new[cell],
            layer_width=0,
            epsilon=epsilon,
            num_epochs=num_epochs,
            num_steps=num_steps,
            num_score_batches=4,
            only=names,
            **PAPERS_CHOICE,
        )
        budget = Budget("neurons", 1e12, step=float(max(1, round(search.share * units))))
        grown, history = grow(
            network, data, budget, method, settings=settings, max_steps=1, seed=derive_seed(seed, "cell", number)
        )
        assert isinstance(grown, CellNetwork)
        network = grown
        histories.append(history)
    return network, histories


def derive_genotypes(network: CellNetwork, search: CellSearch) -> list[Genotype]:
    """For each cell, the widest operation of each edge, or the identity where hardly anything grew."""
    genotypes = []
    for widths, start in zip(widths_of(network), search.widths, strict=True):
        genotypes.append(tuple(choose_operation(edge, start, search.least_growth) for edge in widths))
    return genotypes


def choose_operation(widths: dict[str, int], start: int, least_growth: float) -> str:
    """The widest operation of an edge; the identity if all grew by less than a share of their first width.

    >>> choose_operation({"sep_conv_3x3": 8, "dil_conv_3x3": 12}, start=8, least_growth=0.2)
    'dil_conv_3x3'
    >>> choose_operation({"sep_conv_3x3": 8, "dil_conv_3x3": 9}, start=8, least_growth=0.2)
    'identity'
    """
    best = max(widths, key=lambda name: widths[name])
    return "identity" if widths[best] < (1 + least_growth) * start else best


def final_network(
    genotypes: Sequence[Genotype], *, in_channels: int, num_classes: int, channels: int = 40, num_cells: int = 20
) -> CellNetwork:
    """The network that is trained anew: the first cell repeated, then the second, and so on (B.3).

    With 20 cells and five genotypes, cells 1 to 6, 7, 8 to 13, 14 and 15 to 20 have the genotypes 1 to 5: normal cells
    share what the reductions leave. The reductions double the channels, of which the paper's first cells have 40.

    Raises:
        ConfigError: for an even number of genotypes or too few cells.
    """
    num_reductions = len(genotypes) // 2
    if len(genotypes) % 2 == 0 or num_cells < len(genotypes):
        raise ConfigError(
            f"normal and reduction cells alternate, and each appears: genotypes must be odd in number and at most the "
            f"cells, but got {len(genotypes)} and {num_cells}."
        )
    normal, extra = divmod(num_cells - num_reductions, num_reductions + 1)
    order: list[int] = []
    for place in range(len(genotypes)):
        count = normal + (place // 2 < extra) if place % 2 == 0 else 1
        order += [place] * count
    sizes = [channels * 2 ** ((place + 1) // 2) for place in order]
    names = [[(name,) for name in genotypes[place]] for place in order]
    reductions = [number for number, place in enumerate(order) if place % 2]
    num_nodes = next(n for n in range(1, 20) if len(edges_of(n)) == len(genotypes[0]))
    return CellNetwork(names, sizes, sizes, reductions, in_channels, num_classes, num_nodes)
