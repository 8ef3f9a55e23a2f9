"""Points in two directions: a score against the truth, accuracy against size, a Pareto front."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import GREY, LegendEntry, dash, marker, series_class
from ramet.reports.charts.plane import ChartAxis, Plane, make_plane
from ramet.reports.charts.scales import data_range
from ramet.reports.charts.svg import group, join, polyline, tag, text_width
from ramet.reports.formats import Number, significant, write

_MAX_NAMES_BY_DEFAULT = 12
_FAR = 8  # pixels, beyond which a line leads from a name to its point


@dataclass(frozen=True)
class Points:
    """Points of one kind.

    Args:
        name: What they have in common; it stands in the legend.
        x: Where they are.
        y: Where they are. A point with a missing coordinate is left out.
        names: The name of each, told on hover.
        labelled: The indices of the points whose names are written beside them; by default all of at most twelve.
        joined: Whether a line joins them in their order, as for a Pareto front.
        muted: Whether they are there for comparison only, in grey.
    """

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    names: Sequence[str] = ()
    labelled: Collection[int] | None = None
    joined: bool = False
    muted: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.names and len(self.names) != len(self.x)):
            raise ConfigError(
                f"Points need as many y and names as x, but {self.name!r} has {len(self.x)} x, {len(self.y)} y "
                f"and {len(self.names)} names."
            )


def scatter_chart(
    kinds: Sequence[Points],
    *,
    x_label: str = "",
    y_label: str = "",
    diagonal: bool = False,
    x_log: bool = False,
    y_log: bool = False,
) -> Chart:
    """Points of one or more kinds; more than one makes a legend. On the ``diagonal`` both coordinates are equal."""
    total = sum(len(points.x) for points in kinds)
    spoken = f"Scatter chart of {y_label or 'y'} against {x_label or 'x'}, {total} points."
    pairs = [pair for points in kinds for pair in zip(points.x, points.y, strict=True)]
    x = ChartAxis(*data_range([pair[0] for pair in pairs], log=x_log, margin=0.05), label=x_label, log=x_log)
    y = ChartAxis(*data_range([pair[1] for pair in pairs], log=y_log, margin=0.06), label=y_label, log=y_log)

    def draw(width: float) -> Drawing:
        wide = width >= 600
        entries = [
            LegendEntry(series, points.name, "both" if points.joined else "marker")
            for series, points in zip(_series(kinds), kinds, strict=True)
        ]
        plane = make_plane(width, 380 if wide else 260, x, y, entries if len(kinds) > 1 else ())
        drawn = [
            _draw_points(series, points, plane, x_label, y_label, wide=wide)
            for series, points in zip(_series(kinds), kinds, strict=True)
        ]
        if not any(drawn):
            return message("There is nothing to draw here: no point has both coordinates.", width)
        parts = [plane.background, _diagonal(plane) if diagonal else "", *drawn, _names(kinds, plane, font_size(width))]
        return Drawing(width, plane.height, join(parts))

    def data() -> Rows:
        drawn: list[list[str | float | None]] = []
        for points in kinds:
            names = points.names or [""] * len(points.x)
            drawn += [[points.name, *values] for values in zip(names, points.x, points.y, strict=True)]
        return [["kind", "name", x_label or "x", y_label or "y"], *drawn]

    return Chart(spoken, draw, data)


def _series(kinds: Sequence[Points]) -> list[int]:
    """The series of each kind, which is its colour and its marker."""
    return [GREY if points.muted else index for index, points in enumerate(kinds)]


def _draw_points(index: int, points: Points, plane: Plane, x_label: str, y_label: str, *, wide: bool) -> Markup:
    parts: list[Markup] = []
    shown = _shown(points, plane)
    if points.joined and len(shown) > 1:
        parts.append(
            tag("path", d=polyline([place for _, place in shown]), class_="line", stroke_dasharray=dash(index))
        )
    for which, (x, y) in shown:
        told = [points.names[which]] if points.names else [points.name] if points.name else []
        told.append(f"{x_label or 'x'}: {write(points.x[which], significant)}")
        told.append(f"{y_label or 'y'}: {write(points.y[which], significant)}")
        area = tag("circle", cx=x, cy=y, r=9, class_="area")  # a finger is wider than a marker
        kind = "hit named" if points.labelled and which in points.labelled else "hit"
        parts.append(group(tag("title", "\n".join(told)), area, marker(index, x, y, 4.5 if wide else 4), class_=kind))
    return group(*parts, class_=f"{series_class(index)} points")


def _shown(points: Points, plane: Plane) -> list[tuple[int, tuple[float, float]]]:
    return [
        (which, (plane.x(x), plane.y(y)))
        for which, (x, y) in enumerate(zip(points.x, points.y, strict=True))
        if x is not None and y is not None and plane.x.shows(x) and plane.y.shows(y)
    ]


def _diagonal(plane: Plane) -> Markup:
    low, high = max(plane.x.low, plane.y.low), min(plane.x.high, plane.y.high)
    if low >= high:
        return Markup("")
    return tag("path", d=polyline([(plane.x(low), plane.y(low)), (plane.x(high), plane.y(high))]), class_="reference")


def _names(kinds: Sequence[Points], plane: Plane, size: float) -> Markup:
    """Names near their points, each in the nearest place where it covers nothing, with a thin line if that is far."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for points in kinds for _, (x, y) in _shown(points, plane)]
    texts: list[Markup] = []
    for points in kinds:
        for which, (x, y) in _shown(points, plane):
            if which not in _labelled(points):
                continue
            name = points.names[which]
            for middle_x, middle_y, distance in _places(x, y, text_width(name, size)):
                half_width, half_height = text_width(name, size) / 2, size * 0.55
                box = (middle_x - half_width, middle_y - half_height, middle_x + half_width, middle_y + half_height)
                inside = box[0] >= plane.left and box[2] <= plane.right + 6 and box[1] >= plane.top - size
                if inside and box[3] <= plane.bottom and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    if distance > _FAR:
                        texts.insert(0, tag("path", d=polyline([(x, y), (middle_x, middle_y)]), class_="leader"))
                    texts.append(tag("text", name, x=middle_x, y=middle_y + size * 0.35, class_="middle halo"))
                    break
    return join(texts)


def _labelled(points: Points) -> Collection[int]:
    if not points.names:
        return ()
    by_default = range(len(points.x)) if len(points.x) <= _MAX_NAMES_BY_DEFAULT else ()
    return by_default if points.labelled is None else points.labelled


def _places(x: float, y: float, width: float) -> list[tuple[float, float, float]]:
    """Where a name may stand, the best first: its middle, and how far from the point it is."""
    directions = ((1, 0), (-1, 0), (0, -1), (0, 1), (0.8, -0.7), (-0.8, -0.7), (0.8, 0.7), (-0.8, 0.7))
    return [
        (x + across * (width / 2 + distance), y + down * (distance + 6), distance)
        for distance in (8, 20, 36, 54, 76)
        for across, down in directions
    ]


def _overlap(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]
