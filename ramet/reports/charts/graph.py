"""A graph as a picture: a cell, a network before and after it grew, the paths of tasks.

Another program or library decides where things go, nothing else: nodes and edges are drawn here, so that they have the
page's colours and fonts. Graphviz' ``dot`` is asked, or networkx where that is missing and the graph small; a large
graph without ``dot`` is written out in words. No text of the user passes through another program: boxes have numbers,
and labels are as many letters as they need.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import LegendEntry, dash, legend, series_class
from ramet.reports.charts.svg import Point, coordinate, fit, group, join, tag, text_width, wrap

_MAX_LABEL = 180.0
_MARGIN = 6.0
_GROWN = 2  # green, for a marked node that belongs to no group
_SECONDS = 20.0
_GAP, _RANK_GAP = 16.0, 30.0  # dot's nodesep and ranksep, in pixels
MAX_BOXES = 40
"""Without ``dot`` a larger graph is not drawn: its arrows would run through its boxes."""


@dataclass(frozen=True)
class GraphNode:
    """A box of a graph. ``group`` colours it; ``marked`` draws it filled, for what is new or chosen."""

    key: str
    label: str = ""
    group: int | None = None
    marked: bool = False


@dataclass(frozen=True)
class Edge:
    """An arrow from one node's key to another's. ``group`` colours it, as for the path of a task."""

    source: str
    target: str
    label: str = ""
    group: int | None = None


def graph_chart(nodes: Sequence[GraphNode], edges: Sequence[Edge], *, groups: Sequence[str] = ()) -> Chart:
    """A directed graph, from left to right where there is room, otherwise from top to bottom.

    Several edges between the same two nodes run side by side; ``groups`` are the names of groups, for the legend.

    Raises:
        ConfigError: If two nodes have one key, or an edge ends at no node.
    """
    keys = [node.key for node in nodes]
    if len(set(keys)) != len(keys):
        raise ConfigError("The nodes of a graph need different keys, but at least two have the same.")
    for edge in edges:
        for end in (edge.source, edge.target):
            if end not in keys:
                raise ConfigError(f"An edge must join two nodes of the graph, but {end!r} is none.")
    in_words = _in_words(nodes, edges, groups)
    spoken = f"Graph of {len(nodes)} nodes: {'; '.join(in_words[:12])}."

    def draw(width: float) -> Drawing:
        if not nodes:
            return message("There is nothing to draw here: the graph has no nodes.", width)
        size = font_size(width)
        boxes = [text_width(fit(node.label or node.key, _MAX_LABEL, size), size) + 22 for node in nodes]
        numbers = {node.key: number for number, node in enumerate(nodes)}
        arrows = [Arrow(numbers[e.source], numbers[e.target], len(_edge_label(e, size))) for e in edges]
        placed = place_graph(boxes, arrows, size, "LR") if width >= 600 else None
        if placed is None or placed.width + 2 * _MARGIN > width:  # too long for a line: downwards, then
            placed = place_graph(boxes, arrows, size, "TB")
        if placed is None:
            return _written_out(in_words, width)
        entries = [LegendEntry(index, name, "line") for index, name in enumerate(groups)]
        key, key_height = legend(entries, 0.0, width, size)
        room = max(placed.width + 2 * _MARGIN, width)
        moved = f"translate({coordinate((room - placed.width) / 2)} {coordinate(key_height + _MARGIN)})"
        lines = [_draw_edge(edge, route, size) for edge, route in zip(edges, placed.routes, strict=True)]
        drawn = [_draw_node(node, place, size) for node, place in zip(nodes, placed.places, strict=True)]
        body = join([key, group(*lines, *drawn, transform=moved)])
        return Drawing(room, placed.height + key_height + 2 * _MARGIN, body)

    def data() -> Rows:
        labels = {node.key: node.label or node.key for node in nodes}
        return [["from", "to", "label"], *([labels[e.source], labels[e.target], e.label] for e in edges)]

    return Chart(spoken, draw, data)


def _draw_node(node: GraphNode, place: tuple[float, float, float, float], size: float) -> Markup:
    x, y, width, height = place
    name = node.label or node.key
    box = tag("rect", x=x - width / 2, y=y - height / 2, width=width, height=height, rx=6, class_="node")
    words = tag("text", fit(name, _MAX_LABEL, size), x=x, y=y + size * 0.35, class_="middle")
    plain = series_class(_GROWN) if node.marked else "plain"
    kind = f"hit {plain if node.group is None else series_class(node.group)}{' marked' if node.marked else ''}"
    return group(tag("title", name), box, words, class_=kind)


def _draw_edge(edge: Edge, route: ArrowCurve, size: float) -> Markup:
    (start_x, start_y), *bends = route.points
    curve = " ".join(f"{coordinate(x)} {coordinate(y)}" for x, y in bends)
    (tip_x, tip_y) = route.points[-1]
    before = next(
        (point for point in reversed(route.points[:-1]) if math.dist(point, route.points[-1]) > 0.5), (0.0, 0.0)
    )
    angle = math.atan2(tip_y - before[1], tip_x - before[0])
    wings = [(tip_x - 8 * math.cos(angle + turn), tip_y - 8 * math.sin(angle + turn)) for turn in (-0.42, 0.42)]
    head = "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in [(tip_x, tip_y), *wings])
    parts = [
        tag(
            "path",
            d=f"M{coordinate(start_x)} {coordinate(start_y)}C{curve}",
            class_="edge",
            stroke_dasharray=_dash(edge),
        ),
        tag("path", d=f"M{head}Z", class_="head"),
    ]
    if route.label is not None:
        x, y = route.label
        parts.append(tag("text", _edge_label(edge, size), x=x, y=y + size * 0.35, class_="middle halo muted"))
    return group(*parts, class_="plain" if edge.group is None else series_class(edge.group))


def _dash(edge: Edge) -> str | None:
    return None if edge.group is None else dash(edge.group)


def _edge_label(edge: Edge, size: float) -> str:
    return fit(edge.label, _MAX_LABEL, size)


def _in_words(nodes: Sequence[GraphNode], edges: Sequence[Edge], groups: Sequence[str]) -> list[str]:
    names = {node.key: node.label or node.key for node in nodes}
    told = []
    for edge in edges:
        kind = groups[edge.group] if edge.group is not None and edge.group < len(groups) else ""
        remark = ", ".join(part for part in (edge.label, kind) if part)
        told.append(f"{names[edge.source]} → {names[edge.target]}{f' ({remark})' if remark else ''}")
    joined = {end for edge in edges for end in (edge.source, edge.target)}
    return told + [names[node.key] for node in nodes if node.key not in joined]


def _written_out(in_words: Sequence[str], width: float) -> Drawing:
    size = font_size(width)
    note = "Graphviz is not installed here, so a graph of this size is written out."
    lines = wrap(note, width, size, max_lines=3)
    parts = [tag("text", line, x=0, y=size * (1.2 + 1.5 * index), class_="muted") for index, line in enumerate(lines)]
    y = size * (1.2 + 1.5 * len(lines))
    for sentence in in_words:
        for index, line in enumerate(wrap(sentence, width - 20, size, max_lines=4)):
            y += size * (1.7 if index == 0 else 1.35)
            parts.append(tag("text", line, x=8 if index == 0 else 20, y=y))
    return Drawing(width, y + size, join(parts))


@dataclass(frozen=True)
class Arrow:
    """From one box to another, by their numbers, with a label of so many letters."""

    source: int
    target: int
    letters: int = 0


@dataclass(frozen=True)
class ArrowCurve:
    """Where an arrow runs: the control points of its curve and the place of its label."""

    points: list[Point]
    label: Point | None


@dataclass(frozen=True)
class Layout:
    """Where everything is, in pixels: a box (centre, width, height) for each node, a route for each arrow."""

    width: float
    height: float
    places: list[tuple[float, float, float, float]]
    routes: list[ArrowCurve]


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
        done = subprocess.run(  # nosec B603
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
    routes: dict[tuple[str, str, bool], list[ArrowCurve]] = {}
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
            routes.setdefault((rest[0], rest[1], labelled), []).append(ArrowCurve(points, label))
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


def _curves(
    places: Sequence[tuple[float, float, float, float]], arrows: Sequence[Arrow], across: bool
) -> list[ArrowCurve]:
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
        routes.append(ArrowCurve(points, centre if arrow.letters else None))
    return routes
