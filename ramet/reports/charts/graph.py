"""A graph as a picture: a cell, a network before and after it grew, the paths of tasks.

``placing`` says where things go; nodes and edges are drawn here, so that they have the page's colours and fonts. A
large graph without Graphviz' ``dot`` is written out in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import LegendEntry, dash, legend, series_class
from ramet.reports.charts.placing import Arrow, ArrowCurve, place_graph
from ramet.reports.charts.svg import coordinate, fit, group, join, tag, text_width, wrap

_MAX_LABEL = 180.0
_MARGIN = 6.0
_GROWN = 2  # green, for a marked node that belongs to no group


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
