"""A joint network as a map of lines: boxes are copies of layers, and each task runs as a line through those it uses.

A layer that several tasks share is one box, as high as it has lines, so that sharing is seen without reading. Every
task has a row of the grid at every depth; where lines have to cross, they do so between two layers.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import LegendEntry, dash, legend, series_class
from ramet.reports.charts.svg import coordinate, fit, group, join, tag, text_width

_FEW = 12  # up to so many tasks the rows are far apart, and a phone's legend names them
_LEAST_COLUMN = 56.0
_WIDEST_BOX = 104.0
_NUM_SWEEPS = 6

Order = list[list[int]]
"""For each depth, the routes from the top row to the bottom one."""


@dataclass(frozen=True)
class Stop:
    """A copy of a layer.

    Args:
        key: What routes call it by.
        layer: The layer's name.
        owner: The route that it was made for, counted from 0.
        size: A short figure for its box, such as its parameters; written where there is room.
        note: More about it, for the read-out.
    """

    key: str
    layer: str
    owner: int
    size: str = ""
    note: str = ""


@dataclass(frozen=True)
class Route:
    """The way of one task from the image to its head.

    Args:
        sign: What stands for it in boxes and at the ends of its line: a number or a letter or two.
        name: The task.
        stops: The keys of its stops.
        changed: Those of its stops that it uses with a change of its own; they get a plus sign.
    """

    sign: str
    name: str
    stops: Sequence[str]
    changed: Sequence[str] = ()


def path_chart(stops: Sequence[Stop], routes: Sequence[Route]) -> Chart:
    """The stops by depth from left to right, with a line for each route, in the order in which tasks were learned.

    Raises:
        ConfigError: Two stops have one key, a route goes to no stop, or routes pass two stops in opposite orders.
    """
    known = {stop.key: stop for stop in stops}
    if len(known) != len(stops):
        raise ConfigError("The stops of a map need different keys, but at least two have the same.")
    for route in routes:
        for key in route.stops:
            if key not in known:
                raise ConfigError(f"A route must go through stops of the map, but {key!r} is none.")
    depth = depths([route.stops for route in routes])
    spoken = _in_words(known, routes)

    def draw(width: float) -> Drawing:
        if not depth:
            return message("There is nothing to draw here: no task has a path.", width)
        return _Map(known, routes, depth, width).drawing()

    def data() -> Rows:
        stops_of = [(route, known[key]) for route in routes for key in route.stops]
        return [["task", "layer", "copy", "size"], *([r.name, stop.layer, stop.key, stop.size] for r, stop in stops_of)]

    return Chart(spoken, draw, data)


def depths(ways: Sequence[Sequence[str]]) -> dict[str, int]:
    """How deep each stop lies: after all that comes before it on any way. The last stop of each way is at the end.

    >>> depths([["a", "b", "x"], ["a", "y"]])
    {'a': 0, 'b': 1, 'x': 2, 'y': 2}
    """
    depth = {key: 0 for way in ways for key in way}
    for _ in range(len(depth) + 1):
        is_settled = True
        for way in ways:
            for first, second in pairwise(way):
                if depth[second] <= depth[first]:
                    depth[second], is_settled = depth[first] + 1, False
        if is_settled:
            break
    else:
        raise ConfigError("Routes must pass their stops in one order, but two of them do not.")
    ends = {way[-1] for way in ways if way} - {key for way in ways for key in way[:-1]}
    last = max(depth.values(), default=0)
    return depth | dict.fromkeys((key for key in depth if key in ends), last)


def order_rows(columns: Sequence[Mapping[int, str]]) -> Order:
    """Rows for the routes at each depth, so that routes through one stop are neighbours and few lines cross.

    Each depth in turn, a map from its routes to their stops, is sorted by where its stops' routes lie at the depth
    beside it, to and fro, and the best order on the way is kept.

    >>> order_rows([{0: "a", 1: "b", 2: "a"}, {0: "x", 1: "y", 2: "z"}])
    [[0, 2, 1], [0, 2, 1]]
    """
    routes = list(columns[0])
    order = [_sorted_by(column, {route: float(route) for route in routes}) for column in columns]
    best, fewest = order, num_crossings(order)
    for sweep in range(_NUM_SWEEPS):
        order = [list(rows) for rows in order]
        places = range(1, len(order)) if sweep % 2 == 0 else range(len(order) - 2, -1, -1)
        for place in places:
            beside = order[place - 1 if sweep % 2 == 0 else place + 1]
            order[place] = _sorted_by(columns[place], {route: float(row) for row, route in enumerate(beside)})
        crossings = num_crossings(order)
        if crossings < fewest:
            best, fewest = order, crossings
    return best


def num_crossings(order: Order) -> int:
    """How many pairs of lines cross between neighbouring depths."""
    total = 0
    for first, second in pairwise(order):
        row = {route: place for place, route in enumerate(second)}
        rows = [row[route] for route in first]
        total += sum(rows[i] > rows[j] for i in range(len(rows)) for j in range(i + 1, len(rows)))
    return total


def _sorted_by(column: Mapping[int, str], place: Mapping[int, float]) -> list[int]:
    """The routes by the mean place of their stop, then by their own."""
    members: dict[str, list[float]] = {}
    for route, stop in column.items():
        members.setdefault(stop, []).append(place[route])
    mean = {stop: (statistics.fmean(places), min(places)) for stop, places in members.items()}
    return sorted(column, key=lambda route: (*mean[column[route]], place[route]))


class _Map:
    """One drawing for one width."""

    def __init__(self, stops: Mapping[str, Stop], routes: Sequence[Route], depth: Mapping[str, int], width: float):
        self.stops, self.routes, self.size = stops, routes, font_size(width)
        self.wide = width >= 600
        num_columns = max(depth.values()) + 1
        self.columns = [
            {place: _stop_at(route, column, depth) for place, route in enumerate(routes)}
            for column in range(num_columns)
        ]
        self.order = order_rows(self.columns)
        few = len(routes) <= _FEW
        self.pitch, self.box_height = (28.0, 21.0) if few else (18.0, 16.0)
        names = [self._start_text(route) for route in routes]
        widest = max(text_width(name, self.size) for name in names)
        self.left = min(widest, width * 0.28) + 12
        self.right = max(text_width(route.sign, self.size) for route in routes) + 14
        self.step = max((width - self.left - self.right) / num_columns, _LEAST_COLUMN)
        self.width = max(width, self.left + self.right + self.step * num_columns)
        self.box_width = min(self.step * 0.62, _WIDEST_BOX)
        entries = [LegendEntry(place, f"{route.sign} {route.name}", "line") for place, route in enumerate(routes)]
        shown = entries if few and not self.wide else []
        self.legend, key_height = legend(shown, 0.0, width, self.size)
        self.top = key_height + self.size * 2.1

    def _start_text(self, route: Route) -> str:
        return f"{route.sign} {route.name}" if self.wide else route.sign

    def _y(self, row: int) -> float:
        return self.top + self.pitch * (row + 0.5)

    def _x(self, column: int) -> float:
        return self.left + self.step * (column + 0.5)

    def drawing(self) -> Drawing:
        rows = [{route: row for row, route in enumerate(order)} for order in self.order]
        parts = [self.legend, *self._headings()]
        parts += [self._line(place, [row[place] for row in rows]) for place in range(len(self.routes))]
        for column, members in enumerate(self.columns):
            for stop in dict.fromkeys(members.values()):
                if stop in self.stops:
                    users = [route for route, own in members.items() if own == stop]
                    parts.append(self._box(self.stops[stop], column, users, rows[column]))
        return Drawing(self.width, self._y(len(self.routes)) - self.pitch / 2 + 6, join(parts))

    def _headings(self) -> list[Markup]:
        heads = []
        for column, members in enumerate(self.columns):
            names = dict.fromkeys(self.stops[stop].layer for stop in members.values() if stop in self.stops)
            text = fit(" / ".join(names), self.step - 4, self.size)
            heads.append(tag("text", text, x=self._x(column), y=self.top - self.size * 0.6, class_="muted middle"))
        return heads

    def _line(self, place: int, rows: Sequence[int]) -> Markup:
        """A task from its name through its boxes to its sign at the end."""
        route = self.routes[place]
        half = self.box_width / 2
        curve = [f"M{coordinate(self.left - 6)} {coordinate(self._y(rows[0]))}H{coordinate(self._x(0) + half)}"]
        for column, (before, after) in enumerate(pairwise(rows)):
            start, end = self._x(column) + half, self._x(column + 1) - half
            middle, y0, y1 = (start + end) / 2, self._y(before), self._y(after)
            points = ((middle, y0), (middle, y1), (end, y1))
            curve.append("C" + " ".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points))
            curve.append(f"H{coordinate(end + 2 * half)}")
        last = self._x(len(rows) - 1) + half + 8
        curve.append(f"H{coordinate(last)}")
        baseline = self.size * 0.35
        name = fit(self._start_text(route), self.left - 12, self.size)
        return group(
            tag("title", self._told(route)),
            tag("path", d="".join(curve), class_="line", stroke_dasharray=dash(place)),
            tag("text", name, x=self.left - 12, y=self._y(rows[0]) + baseline, class_="end"),
            tag("text", route.sign, x=last + 4, y=self._y(rows[-1]) + baseline),
            class_=f"hit {series_class(place)}",
        )

    def _told(self, route: Route) -> str:
        way = [f"{self.stops[key].layer} of {self.routes[self.stops[key].owner].sign}" for key in route.stops]
        return f"{route.sign} {route.name}\n" + ", ".join(way)

    def _box(self, stop: Stop, column: int, users: Sequence[int], rows: Mapping[int, int]) -> Markup:
        owner = self.routes[stop.owner]
        own_rows = sorted(rows[user] for user in users)
        x, top = self._x(column) - self.box_width / 2, self._y(own_rows[0]) - self.box_height / 2
        height = self._y(own_rows[-1]) + self.box_height / 2 - top
        whole = f"{owner.sign} · {stop.size}" if stop.size else owner.sign
        changed = [user for user in users if stop.key in self.routes[user].changed]
        room = self.box_width - 8 - (2 * self.size if changed else 0)
        words = whole if text_width(whole, self.size) <= room else fit(owner.sign, room, self.size)
        told = [f"{stop.layer}, made for {owner.sign} {owner.name}", *([stop.note] if stop.note else [])]
        told.append(f"used by {', '.join(self.routes[user].sign for user in users)}")
        parts = [
            tag("title", "\n".join(told)),
            tag("rect", x=x, y=top, width=self.box_width, height=height, rx=5, class_="node"),
            tag("text", words, x=self._x(column), y=top + height / 2 + self.size * 0.35, class_="middle"),
        ]
        parts += [tag("text", "+", x=x + 5, y=self._y(rows[user]) + self.size * 0.35) for user in changed]
        return group(*parts, class_=f"hit marked {series_class(stop.owner)}")


def _stop_at(route: Route, column: int, depth: Mapping[str, int]) -> str:
    """The stop of a route at a depth; a name of its own where it only passes."""
    for key in route.stops:
        if depth[key] == column:
            return key
    return f"\0{route.sign}"


def _in_words(stops: Mapping[str, Stop], routes: Sequence[Route]) -> str:
    told = []
    for place, route in enumerate(routes):
        taken: dict[str, list[str]] = {}
        for key in route.stops:
            if stops[key].owner != place:
                taken.setdefault(routes[stops[key].owner].sign, []).append(stops[key].layer)
        shared = "; ".join(f"{', '.join(layers)} of {sign}" for sign, layers in taken.items())
        told.append(f"{route.sign} {route.name} shares {shared or 'nothing made before it'}")
    return f"Map of {len(routes)} tasks through {len(stops)} copies of layers. " + ". ".join(told[:12]) + "."
