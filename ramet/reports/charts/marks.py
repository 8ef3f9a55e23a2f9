"""The signs that stand for series: markers, dashes, and the legend that explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from ramet.reports.charts.palette import NUM_SERIES
from ramet.reports.charts.svg import coordinate, fit, group, join, tag, text_width

_DASHES = (None, "7 4", "2 3", "10 3 2 3", "4 2")
_NUM_SHAPES = 5


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend: the series whose colour and signs it explains, its name, and which signs it has."""

    series: int
    name: str
    sign: Literal["line", "marker", "both", "tick", "box"]


GREY = 6
"""The series whose colour is grey, for what is there for comparison only."""


def series_class(series: int) -> str:
    """The CSS class that gives a series its colour; colours repeat after the seventh, markers and dashes differ."""
    return f"s{series % NUM_SERIES}"


def dash(series: int) -> str | None:
    """The dash pattern of a series' line."""
    return _DASHES[series % len(_DASHES)]


def marker(series: int, x: float, y: float, radius: float = 3.5) -> Markup:
    """The marker of a series at a place: circle, square, triangle, diamond or inverted triangle."""
    shape = series % _NUM_SHAPES
    if shape == 0:
        return tag("circle", cx=x, cy=y, r=radius, class_="marker")
    reach = radius * (0.9, 1.25, 1.35, 1.25)[shape - 1]  # so that all shapes weigh the same to the eye
    corners = (
        ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)),
        ((0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)),
        ((0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)),
        ((0.0, 1.0), (1.0, -0.8), (-1.0, -0.8)),
    )[shape - 1]
    outline = "L".join(f"{coordinate(x + reach * dx)} {coordinate(y + reach * dy)}" for dx, dy in corners)
    return tag("path", d=f"M{outline}Z", class_="marker")


def legend(entries: Sequence[LegendEntry], left: float, width: float, font_size: float) -> tuple[Markup, float]:
    """A legend in as many rows as it needs: the markup, to be placed at the top of a chart, and its height."""
    if not entries:
        return Markup(""), 0.0
    sign_width, gap, row_height = 26.0, 20.0, font_size * 1.6
    x, row, items = left, 0, []
    for entry in entries:
        name = fit(entry.name, width - left - sign_width - 4, font_size)
        item_width = sign_width + text_width(name, font_size)
        if x > left and x + item_width > width:
            x, row = left, row + 1
        middle = row_height * row + row_height / 2
        label = tag("text", name, x=x + sign_width, y=middle + font_size * 0.35)
        items.append(group(_sign(entry, x, middle), label, class_=series_class(entry.series)))
        x += item_width + gap
    return join(items), row_height * (row + 1) + 8


def _sign(entry: LegendEntry, x: float, y: float) -> Markup:
    parts = []
    if entry.sign == "box":
        parts.append(tag("rect", x=x + 4, y=y - 5, width=12, height=10, class_="box"))
    if entry.sign == "tick":
        parts.append(tag("path", d=f"M{coordinate(x + 3)} {coordinate(y)}h14", class_="truth"))
    if entry.sign in ("line", "both"):
        path = f"M{coordinate(x)} {coordinate(y)}h20"
        parts.append(tag("path", d=path, class_="line", stroke_dasharray=dash(entry.series)))
    if entry.sign in ("marker", "both"):
        parts.append(marker(entry.series, x + 10, y))
    return join(parts)
