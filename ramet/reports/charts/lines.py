"""Lines with confidence bands and markers: how something changes over steps, sizes or time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import LegendEntry, dash, marker, series_class
from ramet.reports.charts.plane import ChartAxis, Plane, make_plane
from ramet.reports.charts.scales import data_range, finite
from ramet.reports.charts.svg import Point, coordinate, fit, group, join, polyline, tag, text_width
from ramet.reports.formats import Estimate, Number, as_number, significant, write

_MAX_MARKERS = 32
_MAX_POINTS = 800
_MAX_READOUTS = 260


@dataclass(frozen=True)
class Line:
    """One line: its name, its points, and its band if ``low`` and ``high`` are given; a missing value breaks it."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number] | None = None
    high: Sequence[Number] | None = None

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        if len(lengths) > 1 or (self.low is None) != (self.high is None):
            raise ConfigError(
                f"A line needs as many x as y, and low and high for all or none, but {self.name!r} differs."
            )


@dataclass(frozen=True)
class Reference:
    """A level to compare with, drawn as a thin horizontal line: a baseline, a limit, the figure of a paper."""

    value: float
    name: str


def line_chart(
    lines: Sequence[Line],
    *,
    x_label: str = "",
    y_label: str = "",
    references: Sequence[Reference] = (),
    events: Sequence[tuple[float, str]] = (),
    include: Sequence[float] = (),
    x_log: bool = False,
    y_log: bool = False,
) -> Chart:
    """Lines over a common axis; more than one makes a legend.

    ``references`` are levels to compare with, ``events`` places on the horizontal axis where something happened, each
    with a word, and ``include`` values that the vertical axis must show. A logarithmic axis leaves out 0 and below.
    """
    names = ", ".join(line.name for line in lines)
    spoken = f"Line chart of {y_label or 'values'} against {x_label or 'steps'}: {names or 'no data'}."
    xs = [value for line in lines for value in line.x]
    whole = all(float(value).is_integer() for value in finite(xs)) and not x_log
    ys = [value for line in lines for values in (line.y, line.low or (), line.high or ()) for value in values]
    references = [reference for reference in references if as_number(reference.value) is not None]
    beside = [reference.value for reference in references] + list(include)
    x = ChartAxis(*data_range(xs, log=x_log, margin=0.01), label=x_label, log=x_log, whole=whole, grid=False)
    y = ChartAxis(*data_range(ys, include=beside, log=y_log, margin=0.06), label=y_label, log=y_log)

    def draw(width: float) -> Drawing:
        wide = width >= 600
        entries = [LegendEntry(index, line.name, _sign(line)) for index, line in enumerate(lines)]
        plane = make_plane(width, 280 if wide else 220, x, y, entries if len(lines) > 1 else ())
        drawn = [_draw_line(index, line, plane) for index, line in enumerate(lines)]
        if not any(drawn):
            return message("There is nothing to draw here: no value was recorded.", width)
        parts = [
            plane.background,
            *[_draw_event(place, word, plane, font_size(width)) for place, word in events if plane.x.shows(place)],
            *drawn,
            _draw_references(references, lines, plane, font_size(width)),
            _readouts(lines, x_label, plane),
        ]
        return Drawing(width, plane.height, join(parts))

    def data() -> Rows:
        has_band = any(line.low is not None for line in lines)
        head = ["line", x_label or "x", y_label or "y", *(["low", "high"] if has_band else [])]
        drawn: list[list[str | float | None]] = []
        for line in lines:
            band = [line.low or [None] * len(line.x), line.high or [None] * len(line.x)] if has_band else []
            drawn += [[line.name, *values] for values in zip(line.x, line.y, *band, strict=True)]
        return [head, *drawn]

    return Chart(spoken, draw, data)


def _sign(line: Line) -> Literal["line", "both"]:
    return "both" if len(finite(line.y)) <= _MAX_MARKERS else "line"


def _draw_line(index: int, line: Line, plane: Plane) -> Markup:
    parts: list[Markup] = []
    if line.low is not None and line.high is not None:
        for run in _runs(plane, line.x, line.low, line.high):
            edge = [(x, low) for x, low, _ in run] + [(x, high) for x, _, high in reversed(run)]
            parts.append(tag("path", d=f"{polyline(edge)}Z", class_="band"))
    runs = _runs(plane, line.x, line.y)
    with_markers = _sign(line) == "both"
    for run in runs:
        points = _thin([(x, y) for x, y in run])
        if len(points) > 1:
            parts.append(tag("path", d=polyline(points), class_="line", stroke_dasharray=dash(index)))
        if with_markers or len(points) == 1:
            parts += [marker(index, x, y) for x, y in points]
    return group(*parts, class_=series_class(index))


def _runs(plane: Plane, xs: Sequence[Number], *ys: Sequence[Number]) -> list[list[tuple[float, ...]]]:
    """Stretches without a missing value, in pixels."""
    runs: list[list[tuple[float, ...]]] = [[]]
    for x, *values in zip(xs, *ys, strict=True):
        if x is not None and plane.x.shows(x) and all(plane.y.shows(value) for value in values):
            runs[-1].append((plane.x(x), *[plane.y(value) for value in values if value is not None]))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _thin(points: list[Point]) -> list[Point]:
    """Fewer points that draw the same line: the lowest and the highest of each small stretch."""
    if len(points) <= _MAX_POINTS:
        return points
    stride = -(-2 * len(points) // _MAX_POINTS)
    kept = []
    for start in range(0, len(points), stride):
        stretch = points[start : start + stride]
        kept += sorted({min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])})
    return kept


def _draw_references(references: Sequence[Reference], lines: Sequence[Line], plane: Plane, size: float) -> Markup:
    """Thin lines with their names, each name at the end and on the side where it covers the fewest points."""
    points = [point for line in lines for run in _runs(plane, line.x, line.y) for point in _between(run)]
    parts: list[Markup] = []
    for reference in sorted(references, key=lambda each: -each.value):
        if not plane.y.shows(reference.value):
            continue
        y = plane.y(reference.value)
        name = fit(reference.name, plane.right - plane.left, size)
        reach = text_width(name, size)
        places = []
        for baseline in (y - 5, y + size + 2):
            for start in (plane.right - reach, plane.left + 4):
                covered = sum(
                    start - 3 <= px <= start + reach + 3 and baseline - size <= py <= baseline + 3 for px, py in points
                )
                outside = baseline > plane.bottom - 2 or baseline - size < plane.top - size
                places.append((covered + 1000 * outside, start, baseline))
        _, start, baseline = min(places, key=lambda place: place[0])
        points += [(start + share * reach, baseline - size / 2) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        across = f"M{coordinate(plane.left)} {coordinate(y)}H{coordinate(plane.right)}"
        parts.append(tag("path", d=across, class_="reference"))
        at_end = start > plane.left + 4
        x = plane.right if at_end else start
        parts.append(tag("text", name, x=x, y=baseline, class_=f"muted halo{' end' * at_end}"))
    return join(parts)


def _between(run: list[tuple[float, ...]]) -> list[Point]:
    """Points along a line, close enough together that none slips through a name."""
    points = [(x, y) for x, y in run]
    for (x0, y0), (x1, y1) in pairwise(run):
        steps = int(max(abs(x1 - x0), abs(y1 - y0)) / 8)
        points += [(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(1, steps)]
    return points


def _draw_event(place: float, word: str, plane: Plane, size: float) -> Markup:
    x = plane.x(place)
    if not plane.left - 1 <= x <= plane.right + 1:
        return Markup("")
    label = fit(word, max(x - plane.left, plane.right - x) - 5, size)
    at_end = x + 5 + text_width(label, size) > plane.right
    line = tag("path", d=f"M{coordinate(x)} {coordinate(plane.top)}V{coordinate(plane.bottom)}", class_="reference")
    text = tag("text", label, x=x + (-5 if at_end else 5), y=plane.top + size, class_=f"muted halo{' end' * at_end}")
    return join([line, text])


def _readouts(lines: Sequence[Line], x_label: str, plane: Plane) -> Markup:
    """A strip over each place of the axis that tells the values of all lines there."""
    at: dict[float, list[str]] = {}
    for line in lines:
        for index, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if x is None or not plane.x.shows(x) or not plane.y.shows(y):
                continue
            band = (
                (line.low[index], line.high[index]) if line.low is not None and line.high is not None else (None, None)
            )
            at.setdefault(float(x), []).append(f"{line.name}: {Estimate(y, *band).text(significant)}")
    places = sorted(at)
    places = places[:: -(-len(places) // _MAX_READOUTS) or 1]
    pixels = [plane.x(place) for place in places]
    strips = []
    for index, (place, pixel) in enumerate(zip(places, pixels, strict=True)):
        start = (pixels[index - 1] + pixel) / 2 if index else min(plane.left, pixel)
        end = (pixels[index + 1] + pixel) / 2 if index + 1 < len(pixels) else max(plane.right, pixel)
        told = "\n".join([f"{x_label or 'x'}: {write(place, significant)}", *at[place]])
        strips.append(
            tag(
                "rect",
                tag("title", told),
                x=start,
                y=plane.top,
                width=end - start,
                height=plane.bottom - plane.top,
                class_="hit strip",
            )
        )
    return join(strips)
