"""The frame of a chart with two axes: margins from the labels, a quiet grid, ticks, and the scales inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ramet.reports.charts.chart import font_size
from ramet.reports.charts.marks import LegendEntry, legend
from ramet.reports.charts.scales import Scale, tick_texts
from ramet.reports.charts.svg import coordinate, fit, join, tag, text_width


@dataclass(frozen=True)
class ChartAxis:
    """One direction of a chart: the values that it shows, and how.

    Args:
        label: What is measured; the unit belongs here too.
        log: Whether equal steps are equal factors.
        whole: Whether only whole numbers mean something.
        flipped: Whether low values are at the top, as ranks are.
        grid: Whether every tick has a line across the chart.
    """

    low: float
    high: float
    label: str = ""
    log: bool = False
    whole: bool = False
    flipped: bool = False
    grid: bool = True

    def ticks(self, pixels: float, pixels_each: float) -> list[float]:
        """Round values at about a distance."""
        ticks = Scale(self.low, self.high, 0, 1, self.log, self.whole).ticks(max(2, int(pixels / pixels_each)))
        if self.whole and 0 < self.low <= 1 and ticks and ticks[0] > 2:
            ticks.insert(0, 1.0)  # ranks begin at 1, and the first is the one that people look for
        return ticks


@dataclass(frozen=True)
class Plane:
    """Where the data go: a scale for each direction, the edges in pixels, and what is drawn behind the data."""

    x: Scale
    y: Scale
    left: float
    right: float
    top: float
    bottom: float
    height: float
    background: Markup


def make_plane(
    width: float,
    plot_height: float,
    x: ChartAxis,
    y: ChartAxis,
    entries: Sequence[LegendEntry] = (),
    *,
    x_ticks: bool = True,
) -> Plane:
    """A frame whose margins fit its labels, with a legend of the entries at the top.

    The label of the vertical axis stands above it, where it can be read without turning the head. Box plots write names
    where the horizontal axis has its ticks.
    """
    size = font_size(width)
    key, key_height = legend(entries, 0.0, width, size)
    top = key_height + (size * 1.9 if y.label else size * 0.7)
    bottom = top + plot_height
    y_values = y.ticks(plot_height, 52)
    y_texts = tick_texts(y_values)
    left = max((text_width(text, size) for text in y_texts), default=0.0) + 10
    x_values = x.ticks(width - left, 92 if width >= 600 else 72) if x_ticks else []
    x_texts = tick_texts(x_values)
    right = width - (max(10.0, text_width(x_texts[-1], size) / 2 + 2) if x_texts else 6.0)
    y_ends = (top, bottom) if y.flipped else (bottom, top)
    plane_x = Scale(x.low, x.high, left, right, x.log, x.whole)
    plane_y = Scale(y.low, y.high, *y_ends, log=y.log, whole=y.whole)

    parts = [key]
    for value, text in zip(y_values, y_texts, strict=True):
        place = plane_y(value)
        if y.grid:
            parts.append(tag("path", d=f"M{coordinate(left)} {coordinate(place)}H{coordinate(right)}", class_="grid"))
        parts.append(tag("text", text, x=left - 8, y=place + size * 0.35, class_="tick end"))
    for value, text in zip(x_values, x_texts, strict=True):
        place = plane_x(value)
        start, length = (top, plot_height + 4) if x.grid else (bottom, 4)
        parts.append(tag("path", d=f"M{coordinate(place)} {coordinate(start)}v{coordinate(length)}", class_="grid"))
        parts.append(tag("text", text, x=place, y=bottom + size * 1.5, class_="tick middle"))
    parts.append(tag("path", d=f"M{coordinate(left)} {coordinate(bottom)}H{coordinate(right)}", class_="axis"))
    height = bottom + (size * 1.5 + 8 if x_ticks else 6)
    if y.label:
        parts.append(tag("text", fit(y.label, width, size), x=0, y=key_height + size, class_="muted"))
    if x.label and x_ticks:
        height += size * 1.4
        label = fit(x.label, right - left, size)
        parts.append(tag("text", label, x=right, y=height - 7, class_="muted end"))
    return Plane(plane_x, plane_y, left, right, top, bottom, height, join(parts))
