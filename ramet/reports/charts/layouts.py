"""Where the boxes and arrows of a graph go: by Graphviz' ``dot``, or by networkx where ``dot`` is missing.

No text of the user passes through another program: boxes have numbers, and labels are as many letters as they need.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ramet.reports.charts.svg import Point

_SECONDS = 20.0
_GAP, _RANK_GAP = 16.0, 30.0  # dot's nodesep and ranksep, in pixels
MAX_BOXES = 40
"""Without ``dot`` a larger graph is not drawn: its arrows would run through its boxes."""


@dataclass(frozen=True)
class Arrow:
    """From one box to another, by their numbers, with a label of so many letters."""

    source: int
    target: int
    letters: int = 0


@dataclass(frozen=True)
class Route:
    """Where an arrow runs: the control points of its curve and the place of its label."""

    points: list[Point]
    label: Point | None


@dataclass(frozen=True)
class Layout:
    """Where everything is, in pixels: a box (centre, width, height) for each node, a route for each arrow."""

    width: float
    height: float
    places: list[tuple[float, float, float, float]]
    routes: list[Route]


def place_graph(widths: Sequence[float], arrows: Sequence[Arrow], size: float, direction: str) -> Layout | None:
    """The layout of boxes of these widths and of arrows, ``LR`` or ``TB``, or none if there is no way to make one."""
    return _by_dot(widths, arrows, size, direction) or _by_networkx(widths, arrows, size, direction)


def _by_dot(widths: Sequence[float], arrows: Sequence[Arrow], size: float, direction: str) -> Layout | None:
    program = shutil.which("dot")
    if program is None:
        return None
    lines = [f'digraph {{ rankdir={direction}; nodesep=0.22; ranksep=0.42; node [shape=box, fixedsize=true, label=""];']
    lines.append(f"edge [arrowhead=none, fontsize={size}, fontname=Helvetica];")
    lines += [f"n{number} [width={w / 72:.4f}, height={size * 2.3 / 72:.4f}];" for number, w in enumerate(widths)]
    for arrow in arrows:
        room = f' [label="{"x" * arrow.letters}"]' if arrow.letters else ""
        lines.append(f"n{arrow.source} -> n{arrow.target}{room};")
    try:
        done = subprocess.run(
            [program, "-Tplain"],
            input="\n".join([*lines, "}"]),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _read_plain(done.stdout, len(widths), arrows)


def _read_plain(text: str, num_boxes: int, arrows: Sequence[Arrow]) -> Layout | None:
    """Graphviz' plain format: inches from the lower left corner, one statement a line, edges in an order of its own."""
    width = height = 0.0
    places = [(0.0, 0.0, 0.0, 0.0)] * num_boxes
    routes: dict[tuple[str, str, bool], list[Route]] = {}
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "graph":
            width, height = 72 * float(rest[1]), 72 * float(rest[2])
        elif word == "node":
            x, y, wide, high = (72 * float(value) for value in rest[1:5])
            places[int(rest[0][1:])] = (x, height - y, wide, high)
        elif word == "edge":
            end = 3 + 2 * int(rest[2])
            numbers = [72 * float(value) for value in rest[3:end]]
            points = [(x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
            labelled = len(rest) - end == 5  # label, its x and y, style, colour; without a label only the last two
            label = (72 * float(rest[end + 1]), height - 72 * float(rest[end + 2])) if labelled else None
            routes.setdefault((rest[0], rest[1], labelled), []).append(Route(points, label))
    try:
        ordered = [routes[f"n{a.source}", f"n{a.target}", bool(a.letters)].pop(0) for a in arrows]
    except (KeyError, IndexError):  # a version of Graphviz that writes something else
        return None
    return Layout(width, height, places, ordered) if width else None


def _by_networkx(widths: Sequence[float], arrows: Sequence[Arrow], size: float, direction: str) -> Layout | None:
    """Boxes in ranks by their longest way from a source, each rank in the order that its neighbours suggest."""
    import networkx

    if len(widths) > MAX_BOXES:
        return None
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(widths)))
    for arrow in arrows:  # one that would close a circle is drawn, and has no say in the ranks
        if arrow.source != arrow.target and not networkx.has_path(graph, arrow.target, arrow.source):
            graph.add_edge(arrow.source, arrow.target)
    ranks = [sorted(rank) for rank in networkx.topological_generations(graph)]
    middle: dict[int, float] = {}
    for rank in ranks:  # the barycentre of what points at a box, as in Sugiyama's method
        before = {box: [middle[other] for other in graph.predecessors(box)] for box in rank}
        rank.sort(key=lambda box: sum(before[box]) / len(before[box]) if before[box] else 0.0)
        middle |= {box: place - (len(rank) - 1) / 2 for place, box in enumerate(rank)}
    high, across = size * 2.3, direction == "TB"
    extents = [[widths[box] if across else high for box in rank] for rank in ranks]
    depths = [high if across else max(widths[box] for box in rank) for rank in ranks]
    letters = max((arrow.letters for arrow in arrows), default=0)
    rank_gap = _RANK_GAP + (0 if across else 0.6 * size * letters)
    breadth = max(sum(extent) + _GAP * (len(extent) - 1) for extent in extents)
    places = [(0.0, 0.0, 0.0, 0.0)] * len(widths)
    along = 0.0
    for rank, extent, depth in zip(ranks, extents, depths, strict=True):
        offset = (breadth - sum(extent) - _GAP * (len(extent) - 1)) / 2
        for box, room in zip(rank, extent, strict=True):
            centre, place = offset + room / 2, along + depth / 2
            places[box] = (centre, place, widths[box], high) if across else (place, centre, widths[box], high)
            offset += room + _GAP
        along += depth + rank_gap
    length = along - rank_gap
    routes = _curves(places, arrows, across)
    return Layout(breadth if across else length, length if across else breadth, places, routes)


def _curves(places: Sequence[tuple[float, float, float, float]], arrows: Sequence[Arrow], across: bool) -> list[Route]:
    """A curve for each arrow, from the side of one box to that of the other; those between the same two lie apart."""
    drawn: dict[tuple[int, int], int] = {}
    routes = []
    for arrow in arrows:
        pair = (min(arrow.source, arrow.target), max(arrow.source, arrow.target))
        shift = 10.0 * drawn.setdefault(pair, 0)
        drawn[pair] += 1
        (x1, y1, w1, h1), (x2, y2, w2, h2) = places[arrow.source], places[arrow.target]
        if across:
            turn = 1 if y2 >= y1 else -1
            start, end = (x1, y1 + turn * h1 / 2), (x2, y2 - turn * h2 / 2)
            bend = (end[1] - start[1]) / 2
            points = [start, (start[0] + shift, start[1] + bend), (end[0] + shift, end[1] - bend), end]
        else:
            turn = 1 if x2 >= x1 else -1
            start, end = (x1 + turn * w1 / 2, y1), (x2 - turn * w2 / 2, y2)
            bend = (end[0] - start[0]) / 2
            points = [start, (start[0] + bend, start[1] + shift), (end[0] - bend, end[1] + shift), end]
        centre = (
            (start[0] + end[0]) / 2 + (shift if across else 0),
            (start[1] + end[1]) / 2 + (0 if across else shift),
        )
        routes.append(Route(points, centre if arrow.letters else None))
    return routes
