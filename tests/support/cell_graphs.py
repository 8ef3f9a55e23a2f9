"""The cells of an architecture as graphs, from the notations of the spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ramet.reports.charts import Edge, GraphNode

_GENE = re.compile(r"\('([a-z0-9_]+)', (\d+)\)")
_BENCHMARK = re.compile(r"([a-z0-9_]+)~(\d)")


def cell_graphs(name: str, operations: Sequence[str] = ()) -> list[tuple[str, list[GraphNode], list[Edge]]]:
    """The cells of a notation as graphs; nothing for a notation that draws no cell.

    Args:
        name: the architecture in its space's own notation.
        operations: of the space, for notations that give operations by number: those of cells64 and enas-micro.
    """
    if operations and name.isdecimal():
        return _dense_cell([operations[int(digit) - 1] for digit in name])
    if operations and " | " in name:
        rows = [list(map(int, row.split(" "))) for row in name.split(" | ")]
        return [
            _two_input(title, [(operations[row[place + 1]], str(row[place])) for place in range(0, len(row), 2)])
            for title, row in zip(("Normal cell", "Reduction cell"), rows, strict=True)
        ]
    if name.startswith("Genotype("):
        halves = name.split("reduce=")
        return [
            _two_input(title, _GENE.findall(half))
            for title, half in zip(("Normal cell", "Reduction cell"), halves, strict=True)
        ]
    if "~" in name:
        nodes = [GraphNode(str(place), "input" if place == 0 else f"node {place}") for place in range(4)]
        edges = [
            Edge(start, str(end), operation)
            for end, part in enumerate(name.split("+"), start=1)
            for operation, start in _BENCHMARK.findall(part)
            if operation != "none"
        ]
        return [("The cell", nodes, edges)]
    if ":" in name and "=" not in name:
        first, *rest = name.split(" ")
        nodes = [
            GraphNode("x", "word and state"),
            *(GraphNode(str(place), f"node {place}") for place in range(1 + len(rest))),
        ]
        edges = [Edge("x", "0", first)]
        edges += [Edge(part.split(":")[0], str(place), part.split(":")[1]) for place, part in enumerate(rest, start=1)]
        return [("The cell", nodes, edges)]
    return []


def _dense_cell(labels: list[str]) -> list[tuple[str, list[GraphNode], list[Edge]]]:
    """A cell in which every node adds up operations on all that came before; edges by end, then start."""
    edges: list[Edge] = []
    end = 0
    while len(edges) < len(labels):
        end += 1
        edges += [Edge(str(start), str(end), labels[len(edges) + start]) for start in range(end)]
    nodes = [GraphNode(str(place), "input" if place == 0 else f"node {place}") for place in range(end + 1)]
    return [("The cell", nodes, edges)]


def _two_input(title: str, genes: list[tuple[str, str]]) -> tuple[str, list[GraphNode], list[Edge]]:
    nodes = [GraphNode("0", "cell before the last"), GraphNode("1", "last cell")]
    nodes += [GraphNode(str(2 + place), f"node {2 + place}") for place in range(len(genes) // 2)]
    edges = [Edge(start, str(2 + place // 2), operation) for place, (operation, start) in enumerate(genes)]
    return title, nodes, [edge for edge in edges if edge.label != "none"]
