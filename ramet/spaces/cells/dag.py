"""The inside of a cell: nodes that are densely connected, one operation chosen on each edge.

Edges are numbered by their end, then by their start: (0, 1), (0, 2), (1, 2), (0, 3), ... So what node j holds depends
on the first j (j + 1) / 2 choices only, and architectures in lexicographic order change late nodes most often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ramet.spaces.base import Arch, CellGraph


def edges_of(num_nodes: int) -> list[tuple[int, int]]:
    """The edges (start, end) between the input, which is node 0, and nodes 1 to ``num_nodes``, in order.

    >>> edges_of(2)
    [(0, 1), (0, 2), (1, 2)]
    """
    return [(start, end) for end in range(1, num_nodes + 1) for start in range(end)]


def dense_graph(operations: Sequence[str]) -> list[CellGraph]:
    """The picture of a cell by the operations of its edges, in the order of ``edges_of``; ``none`` is left out.

    >>> dense_graph(["conv", "none", "pool"])[0].edges
    (('0', '1', 'conv'), ('1', '2', 'pool'))
    """
    num_nodes = 0
    while len(edges_of(num_nodes)) < len(operations):
        num_nodes += 1
    nodes = [("0", "input"), *((str(node), f"node {node}") for node in range(1, num_nodes + 1))]
    edges = zip(edges_of(num_nodes), operations, strict=True)
    drawn = tuple((str(start), str(end), name) for (start, end), name in edges if name != "none")
    return [CellGraph("The cell", tuple(nodes), drawn)]


class DenseDag(nn.Module):
    """Densely connected nodes: node j is the sum over i < j of O_(i, j)(x_i) (deeper insights, Eq. 1).

    All options of all edges are held; ``forward`` touches only those that the architecture takes. ``make_operation``
    builds option number ``k`` of an edge; None is the option that leaves the edge out.
    """

    def __init__(self, num_nodes: int, num_options: int, make_operation: Callable[[int], nn.Module | None]) -> None:
        super().__init__()
        self.num_nodes = num_nodes
        self.edges = nn.ModuleList()
        for _ in edges_of(num_nodes):
            made = {str(option): make_operation(option) for option in range(num_options)}
            self.edges.append(nn.ModuleDict({key: module for key, module in made.items() if module is not None}))

    def apply_edge(self, edge: int, option: int, x: Tensor) -> Tensor | None:
        """One option of one edge applied to the value of the node where the edge starts."""
        options: nn.ModuleDict = self.edges[edge]  # type: ignore[assignment]
        key = str(option)
        if key not in options:
            return None
        result: Tensor = options[key](x)
        return result

    def forward(self, x: Tensor, arch: Arch) -> list[Tensor]:
        """The values of nodes 1 to n, each of the shape of ``x``; a node that nothing reaches holds zeros."""
        nodes = [x]
        edge = 0
        for end in range(1, self.num_nodes + 1):
            total: Tensor | None = None
            for start in range(end):
                total = add(total, self.apply_edge(edge, arch[edge], nodes[start]))
                edge += 1
            nodes.append(torch.zeros_like(x) if total is None else total)
        return nodes[1:]

    def forward_mixed(self, x: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        """The values of nodes 1 to n when every edge adds up all its options, by the weights of that edge."""
        nodes = [x]
        edge = 0
        for end in range(1, self.num_nodes + 1):
            total: Tensor | None = None
            for start in range(end):
                for option, weight in enumerate(weights[edge]):
                    value = self.apply_edge(edge, option, nodes[start])
                    total = add(total, None if value is None else weight * value)
                edge += 1
            nodes.append(torch.zeros_like(x) if total is None else total)
        return nodes[1:]


class DagMemo:
    """The nodes of a dag for one input and many architectures, without computing anything twice.

    The value of a node is known by the choices before it, and the value of an edge by those of its start and its own
    option. When a node changes, what came from its old value is dropped: in lexicographic order nothing that is dropped
    is needed again, and at most one value for each option of each edge is held. Only for evaluation mode: a batch norm
    in training mode would see each value once instead of once a child.
    """

    def __init__(self, dag: DenseDag, x: Tensor) -> None:
        self._dag = dag
        self._nodes = [x] + [x] * dag.num_nodes
        self._known: list[Arch | None] = [()] + [None] * dag.num_nodes
        self._values: list[dict[int, Tensor | None]] = [{} for _ in dag.edges]
        self._leaving: list[list[int]] = [[] for _ in self._nodes]
        for edge, (start, _) in enumerate(edges_of(dag.num_nodes)):
            self._leaving[start].append(edge)

    def __call__(self, arch: Arch) -> list[Tensor]:
        """The values of nodes 1 to n for one architecture; bitwise those of ``dag(x, arch)``."""
        edge = 0
        for end in range(1, self._dag.num_nodes + 1):
            first, edge = edge, edge + end
            if self._known[end] == arch[:edge]:
                continue
            for stale in self._leaving[end]:
                self._values[stale].clear()
            self._nodes[end] = self._nodes[0]  # Let go of the old value before the new one is made.
            total: Tensor | None = None
            for start in range(end):
                total = add(total, self._edge(first + start, arch[first + start], start))
            self._nodes[end] = torch.zeros_like(self._nodes[0]) if total is None else total
            self._known[end] = arch[:edge]
        return self._nodes[1:]

    def _edge(self, edge: int, option: int, start: int) -> Tensor | None:
        held = self._values[edge]
        if option not in held:
            value = self._dag.apply_edge(edge, option, self._nodes[start])
            if edge == 0:  # The first choice changes least often: its values are never asked for again.
                return value
            held[option] = value
        return held[option]


def add(total: Tensor | None, value: Tensor | None) -> Tensor | None:
    """The sum of what is there."""
    if total is None or value is None:
        return value if total is None else total
    return total + value
