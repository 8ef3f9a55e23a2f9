"""Where the boxes and arrows of a graph go: asked of Graphviz' ``dot``, or worked out by ranks where that is missing.

No text of the user passes through the other program: boxes have numbers, and labels are as many letters as they need.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ramet.reports.charts.svg import Point

_SECONDS = 20.0
_GAP, _RANK_GAP = 16.0, 30.0  # dot's nodesep and ranksep, in pixels
_LETTER = 0.6
"""The width of a letter, as a share of the font's size."""
_LANE = 10.0
"""The breadth of an arrow's way past the boxes of a rank, and the distance of arrows between the same two boxes."""
MAX_BOXES = 40
"""Without ``dot`` a larger graph is not drawn: nobody could follow its arrows."""


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
    return _by_dot(widths, arrows, size, direction) or _by_ranks(widths, arrows, size, direction)


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


class _Lane(NamedTuple):
    """The way of an arrow past the boxes of a rank, by their numbers."""

    arrow: int
    rank: int


def _by_ranks(widths: Sequence[float], arrows: Sequence[Arrow], size: float, direction: str) -> Layout | None:
    """Boxes in ranks by their longest way from a source, each rank in the order that its neighbours suggest.

    An arrow over several ranks has a lane of its own past the boxes of each, as if it went through one (Sugiyama and
    others, 1981).
    """
    import networkx

    if len(widths) > MAX_BOXES:
        return None
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(widths)))
    for arrow in arrows:  # one that would close a circle is drawn, and has no say in the ranks
        if arrow.source != arrow.target and not networkx.has_path(graph, arrow.target, arrow.source):
            graph.add_edge(arrow.source, arrow.target)
    boxes: list[list[int]] = [sorted(rank) for rank in networkx.topological_generations(graph)]
    rank_of = {box: number for number, rank in enumerate(boxes) for box in rank}
    lanes = [
        [_Lane(number, rank) for rank in range(rank_of[arrow.source] + 1, rank_of[arrow.target])]
        for number, arrow in enumerate(arrows)
    ]
    ranks: list[list[int | _Lane]] = [
        [*rank, *(lane for way in lanes for lane in way if lane.rank == number)] for number, rank in enumerate(boxes)
    ]
    _order(ranks, arrows, lanes)

    high, across = size * 2.3, direction == "TB"
    labelled = {way[len(way) // 2] for way in lanes if way}

    def extent(place: int | _Lane) -> float:
        if not isinstance(place, _Lane):
            return widths[place] if across else high
        letters = arrows[place.arrow].letters if place in labelled else 0
        return max(_LANE, _LETTER * size * letters if across else 1.6 * size * bool(letters))

    depths = [high if across else max(widths[box] for box in rank) for rank in boxes]
    letters = max((arrow.letters for arrow in arrows), default=0)
    rank_gap = _RANK_GAP + (0 if across else _LETTER * size * letters)
    breadth = max(sum(extent(place) for place in rank) + _GAP * (len(rank) - 1) for rank in ranks)
    centres: dict[int | _Lane, Point] = {}
    along = 0.0
    for rank, depth in zip(ranks, depths, strict=True):
        offset = (breadth - sum(extent(place) for place in rank) - _GAP * (len(rank) - 1)) / 2
        for place in rank:
            middle = offset + extent(place) / 2
            centres[place] = (middle, along + depth / 2) if across else (along + depth / 2, middle)
            offset += extent(place) + _GAP
        along += depth + rank_gap
    length = along - rank_gap
    places = [(*centres[box], width, high) for box, width in enumerate(widths)]
    ways = [[(centres[lane], depths[lane.rank]) for lane in way] for way in lanes]
    routes = _routes(places, arrows, ways, size, across)
    return Layout(breadth if across else length, length if across else breadth, places, routes)


def _order(ranks: list[list[int | _Lane]], arrows: Sequence[Arrow], lanes: Sequence[Sequence[_Lane]]) -> None:
    """Sort each rank by the mean place of what leads to it from the rank before."""
    before: dict[int | _Lane, list[int | _Lane]] = {}
    for arrow, passed in zip(arrows, lanes, strict=True):
        way: list[int | _Lane] = [arrow.source, *passed, arrow.target]
        for one, other in itertools.pairwise(way):
            before.setdefault(other, []).append(one)
    middle: dict[int | _Lane, float] = {}
    for rank in ranks:
        known = {place: [middle[one] for one in before.get(place, []) if one in middle] for place in rank}
        rank.sort(key=lambda place: sum(known[place]) / len(known[place]) if known[place] else 0.0)
        middle |= {place: number - (len(rank) - 1) / 2 for number, place in enumerate(rank)}


def _routes(
    places: Sequence[tuple[float, float, float, float]],
    arrows: Sequence[Arrow],
    ways: Sequence[Sequence[tuple[Point, float]]],
    size: float,
    across: bool,
) -> list[ArrowCurve]:
    """A curve for each arrow, from the side of one box to that of the other, by way of the middles of its lanes.

    Those between the same two neighbours lie apart. A label stands above a line that runs to the right.
    """
    drawn: dict[tuple[int, int], int] = {}
    routes = []
    for arrow, lanes in zip(arrows, ways, strict=True):
        pair = (min(arrow.source, arrow.target), max(arrow.source, arrow.target))
        shift = 0.0 if lanes else _LANE * drawn.setdefault(pair, 0)
        drawn[pair] = drawn.get(pair, 0) + (not lanes)
        # Along the ranks first, then across them, whichever way these run.
        (a1, b1), (a2, b2) = (_turned((places[box][0], places[box][1]), across) for box in (arrow.source, arrow.target))
        half1, half2 = (places[box][3 if across else 2] / 2 for box in (arrow.source, arrow.target))
        turn = 1 if a2 >= a1 else -1
        stops = [(a1 + turn * half1, b1)]
        for centre, depth in lanes:
            along, beside = _turned(centre, across)
            stops += [(along - depth / 2, beside), (along + depth / 2, beside)]
        stops.append((a2 - turn * half2, b2))
        points = stops[:1]
        for (from_a, from_b), (to_a, to_b) in itertools.pairwise(stops):
            bend = (to_a - from_a) / 2
            points += [(from_a + bend, from_b + shift), (to_a - bend, to_b + shift), (to_a, to_b)]
        if lanes:
            label = _turned(lanes[len(lanes) // 2][0], across)
        else:
            label = ((stops[0][0] + stops[-1][0]) / 2, (stops[0][1] + stops[-1][1]) / 2 + shift)
        if not across:
            label = (label[0], label[1] - 0.75 * size)
        curve = [_turned(point, across) for point in points]
        routes.append(ArrowCurve(curve, _turned(label, across) if arrow.letters else None))
    return routes


def _turned(point: Point, across: bool) -> Point:
    """A point with its coordinates exchanged, where ranks run downwards."""
    return (point[1], point[0]) if across else (point[0], point[1])
