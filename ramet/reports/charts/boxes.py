"""Box plots side by side: how a child's rank, or anything else, is spread, one box for each name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import LegendEntry
from ramet.reports.charts.plane import ChartAxis, Plane, make_plane
from ramet.reports.charts.scales import data_range, finite
from ramet.reports.charts.svg import coordinate, fit, group, join, polyline, tag, text_width
from ramet.reports.formats import Number, significant, write

_SLOT = 12.0  # the least room for a box whose name is turned upright
_MAX_NAME = 110.0


@dataclass(frozen=True)
class _Box:
    """What a box plot shows of a sample: quartiles, the reach of the whiskers, and what lies beyond them."""

    low: float
    first: float
    median: float
    third: float
    high: float
    beyond: tuple[float, ...]


def box_chart(
    names: Sequence[str],
    samples: Sequence[Sequence[Number]],
    *,
    x_label: str = "",
    y_label: str = "",
    truth: Sequence[Number] | None = None,
    truth_name: str = "truth",
    ranks: bool = False,
) -> Chart:
    """One box for each name, in the given order.

    The box holds the middle half of a sample and its line is the median; the whiskers reach to the last value within
    one and a half box heights, and what lies beyond is a dot. Missing values are left out. A ``truth`` to compare each
    box with is a short bar across it. ``ranks`` are whole, from 1, and 1 is at the top.
    """
    if len(names) != len(samples) or (truth is not None and len(truth) != len(names)):
        raise ConfigError(
            f"A box chart needs a sample and a truth for each name, but got {len(samples)} for {len(names)}."
        )
    boxes = [_summarise(finite(sample)) for sample in samples]
    spoken = f"Box plots of {y_label or 'values'} for {len(names)} {x_label or 'names'}."
    values = [value for sample in samples for value in sample] + list(truth or ())
    low, high = data_range(values, margin=0.03)
    if ranks:
        low, high = min([0.5, *finite(values)]), max(high, 1.5)
    y = ChartAxis(low, high, label=y_label, whole=ranks, flipped=ranks)
    entries = [LegendEntry(0, "middle half and median", "box"), LegendEntry(1, truth_name, "tick")] if truth else []

    def draw(width: float) -> Drawing:
        if not finite(values):
            return message("There is nothing to draw here: no value was recorded.", width)
        size = font_size(width)
        widest = max(text_width(name, size) for name in names)
        upright = widest + 8 > (width - 50) / len(names)
        needed = 50 + _SLOT * len(names) if upright else width
        room = max(width, needed)
        plane = make_plane(room, 300 if width >= 600 else 240, ChartAxis(0, len(names)), y, entries, x_ticks=False)
        slot = (plane.right - plane.left) / len(names)
        parts = [plane.background]
        for index, (name, box) in enumerate(zip(names, boxes, strict=True)):
            x = plane.x(index + 0.5)
            marked = truth[index] if truth is not None else None
            parts.append(_draw_box(name, box, marked, truth_name, plane, x, slot))
            parts.append(_name(name, plane, x, size if slot > 13 or not upright else 11, upright=upright))
        height = plane.bottom + (min(widest, _MAX_NAME) + 14 if upright else size * 2)
        if x_label:
            height += size * 1.5
            parts.append(tag("text", fit(x_label, room - plane.left, size), x=plane.left, y=height - 6, class_="muted"))
        return Drawing(room, height, join(parts))

    def data() -> Rows:
        head = [x_label or "name", y_label or "value", *([] if truth is None else [truth_name])]
        ends = [[]] * len(names) if truth is None else [[value] for value in truth]
        drawn = zip(names, samples, ends, strict=True)
        return [head, *([name, value, *end] for name, sample, end in drawn for value in sample)]

    return Chart(spoken, draw, data)


def _summarise(sample: list[float]) -> _Box | None:
    if not sample:
        return None
    if len(sample) == 1:
        first = median = third = sample[0]
    else:
        first, median, third = quantiles(sample, n=4, method="inclusive")
    reach = 1.5 * (third - first)
    within = [value for value in sample if first - reach <= value <= third + reach]
    beyond = tuple(sorted({value for value in sample if not first - reach <= value <= third + reach}))
    return _Box(min(within), first, median, third, max(within), beyond)


def _draw_box(
    name: str, box: _Box | None, truth: Number, truth_name: str, plane: Plane, x: float, slot: float
) -> Markup:
    half = min(slot * 0.34, 18.0)
    parts: list[Markup] = []
    told = [name]
    if box is not None:
        low, first, median, third, high = (
            plane.y(value) for value in (box.low, box.first, box.median, box.third, box.high)
        )
        whisker = polyline([(x, low), (x, first)]) + polyline([(x, third), (x, high)])
        top = min(first, third)
        parts.append(tag("path", d=whisker, class_="whisker"))
        height = max(abs(third - first), 1.5)
        parts.append(tag("rect", x=x - half, y=top, width=2 * half, height=height, class_="box"))
        parts.append(
            tag("path", d=f"M{coordinate(x - half)} {coordinate(median)}h{coordinate(2 * half)}", class_="median")
        )
        parts += [tag("circle", cx=x, cy=plane.y(value), r=1.6, class_="beyond") for value in box.beyond]
        told.append(f"median {write(box.median, significant)}")
        told.append(f"middle half {write(box.first, significant)} to {write(box.third, significant)}")
        every = (box.low, box.high, *box.beyond)
        told.append(f"all {write(min(every), significant)} to {write(max(every), significant)}")
    if truth is not None and plane.y.shows(truth):
        place, reach = plane.y(truth), min(slot * 0.46, 22.0)
        bar = tag("path", d=f"M{coordinate(x - reach)} {coordinate(place)}h{coordinate(2 * reach)}", class_="truth")
        parts.append(group(bar, class_="s1"))
        told.append(f"{truth_name} {write(truth, significant)}")
    area = tag("rect", x=x - slot / 2, y=plane.top, width=slot, height=plane.bottom - plane.top, class_="area")
    return group(tag("title", "\n".join(told)), area, *parts, class_="hit s0")


def _name(name: str, plane: Plane, x: float, size: float, *, upright: bool) -> Markup:
    if not upright:
        return tag("text", name, x=x, y=plane.bottom + size * 1.5, class_="tick middle")
    place = f"rotate(-90 {coordinate(x + size * 0.35)} {coordinate(plane.bottom + 8)})"
    short = fit(name, _MAX_NAME, size)
    return tag("text", short, x=x + size * 0.35, y=plane.bottom + 8, transform=place, font_size=size, class_="tick end")
