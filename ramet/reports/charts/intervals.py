"""Values with their intervals, one row each: dots for estimates that are compared, bars for amounts from zero."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import GREY, series_class
from ramet.reports.charts.scales import Scale, data_range, finite, tick_texts
from ramet.reports.charts.svg import coordinate, fit, group, join, tag, text_width, wrap
from ramet.reports.formats import Estimate, Format, number


def dot_chart(
    names: Sequence[str],
    estimates: Sequence[Estimate],
    *,
    x_label: str = "",
    reference: float | None = None,
    muted: Collection[int] = (),
    include: Sequence[float] = (),
    form: Format = number,
    bars: bool = False,
) -> Chart:
    """One dot and its interval a row: what to look at is whether the intervals overlap.

    A ``reference`` to compare all with is a line through all rows. Rows whose indices are ``muted`` are there for
    comparison only, in grey. The axis shows the values of ``include``. With ``bars``, each value is a bar from zero.
    """
    if len(names) != len(estimates):
        raise ConfigError(f"A chart needs an estimate for each name, but got {len(estimates)} for {len(names)}.")
    told = "; ".join(f"{name} {estimate.text(form)}" for name, estimate in zip(names, estimates, strict=True))
    spoken = f"{'Bars' if bars else 'Dots'} of {x_label or 'values'}: {told or 'no data'}."
    values = [value for estimate in estimates for value in (estimate.value, estimate.low, estimate.high)]
    beside = [*include, *([] if reference is None else [reference])]
    low, high = data_range(values, include=beside, margin=0.05)
    if bars:
        low, high = (min(low, 0.0) if min(finite(values), default=0) < 0 else 0.0), max(high, 0.0)

    def draw(width: float) -> Drawing:
        if not finite(values):
            return message("There is nothing to draw here: no value was recorded.", width)
        size = font_size(width)
        texts = [fit(estimate.text(form).replace("-", "−"), width * 0.6, size) for estimate in estimates]
        rows = _lay_out(names, texts, width, top=size * 1.7 if x_label else 0.0)
        scale = Scale(low, high, rows.left, rows.right)
        ticks = scale.ticks(max(2, int((rows.right - rows.left) / 80)))
        parts = [tag("text", fit(x_label, width, size), x=0, y=size, class_="muted")] if x_label else []
        for tick, text in zip(ticks, tick_texts(ticks), strict=True):
            parts.append(_upright(scale(tick), rows, "grid"))
            parts.append(tag("text", text, x=scale(tick), y=rows.bottom + size * 1.4, class_="tick middle"))
        if reference is not None:
            parts.append(_upright(scale(reference), rows, "reference"))
        for index, (row, estimate, text) in enumerate(zip(rows.rows, estimates, texts, strict=True)):
            parts.append(
                group(
                    tag("title", f"{names[index]}\n{estimate.text(form)}"),
                    tag("rect", x=0, y=row.top, width=width, height=row.height, class_="area"),
                    _bar(estimate, scale, row.middle) if bars else _dot(estimate, scale, row.middle),
                    class_=f"hit {series_class(GREY if index in muted else 0)}",
                )
            )
            for line, text_y in zip(row.lines, row.baselines, strict=True):
                parts.append(tag("text", line, x=0, y=text_y, class_="halo"))
            if rows.shows_values:
                parts.append(tag("text", text, x=width, y=row.value_baseline, class_="end figures halo"))
        return Drawing(width, rows.bottom + size * 1.4 + 8, join(parts))

    def data() -> Rows:
        head = ["name", x_label or "value", "low", "high"]
        return [head, *([name, e.value, e.low, e.high] for name, e in zip(names, estimates, strict=True))]

    return Chart(spoken, draw, data)


def bar_chart(
    names: Sequence[str], estimates: Sequence[Estimate], *, include: Sequence[float] = (), **options: Any
) -> Chart:
    """One bar from zero a row, with its interval: for amounts, of which twice the length is twice as much.

    The arguments are those of ``dot_chart``.
    """
    return dot_chart(names, estimates, include=[0.0, *include], bars=True, **options)


@dataclass(frozen=True)
class _Row:
    """One row: its edges, the lines of its name, and where everything stands."""

    top: float
    height: float
    middle: float
    lines: list[str]
    baselines: list[float]
    value_baseline: float


@dataclass(frozen=True)
class _Rows:
    """All rows, and the room that is left for the data."""

    rows: list[_Row]
    left: float
    right: float
    top: float
    bottom: float
    shows_values: bool


def _lay_out(names: Sequence[str], texts: Sequence[str], width: float, top: float) -> _Rows:
    """Names to the left of the data on a desktop; above them on a phone, where there is no room to the left."""
    size = font_size(width)
    line_height = size * 1.25
    value_room = max(text_width(text, size) for text in texts) + 14
    stacked = width < 600
    shows_values = stacked or value_room <= width * 0.3
    name_room = width - value_room if stacked else min(max(text_width(n, size) for n in names) + 18, width * 0.4)
    rows, y = [], top
    for name in names:
        lines = wrap(name, name_room - (4 if stacked else 18), size, max_lines=3 if stacked else 2) or [""]
        if stacked:
            middle = y + line_height * len(lines) + 12
            height = middle - y + 18
            first = y + size
        else:
            height = max(line_height * len(lines) + 8, 30.0 if len(names) <= 24 else 20.0)
            middle = y + height / 2
            first = middle + size * 0.35 - line_height * (len(lines) - 1) / 2
        baselines = [first + line_height * index for index in range(len(lines))]
        value_baseline = y + size if stacked else middle + size * 0.35
        rows.append(_Row(y, height, middle, lines, baselines, value_baseline))
        y += height
    left = 8.0 if stacked else name_room
    right = width - (8.0 if stacked or not shows_values else value_room + 6)
    return _Rows(rows, left, right, top, y + (0 if stacked else 6), shows_values)


def _upright(x: float, rows: _Rows, kind: str) -> Markup:
    return tag("path", d=f"M{coordinate(x)} {coordinate(rows.top)}V{coordinate(rows.bottom)}", class_=kind)


def _dot(estimate: Estimate, scale: Scale, y: float) -> Markup:
    parts = []
    if estimate.has_interval and estimate.low is not None and estimate.high is not None:
        start, end = scale(estimate.low), scale(estimate.high)
        parts.append(tag("path", d=f"M{coordinate(start)} {coordinate(y)}H{coordinate(end)}", class_="interval"))
    if estimate.value is not None and scale.shows(estimate.value):
        parts.append(tag("circle", cx=scale(estimate.value), cy=y, r=5, class_="marker"))
    return join(parts)


def _bar(estimate: Estimate, scale: Scale, y: float) -> Markup:
    if estimate.value is None or not scale.shows(estimate.value):
        return Markup("")
    start, end = sorted((scale(0.0), scale(estimate.value)))
    bar = tag("rect", x=start, y=y - 8, width=max(end - start, 1.0), height=16, rx=1.5, class_="bar")
    if not estimate.has_interval or estimate.low is None or estimate.high is None:
        return bar
    first, last = scale(estimate.low), scale(estimate.high)
    ends = f"M{coordinate(first)} {coordinate(y - 4)}v8M{coordinate(last)} {coordinate(y - 4)}v8"
    whisker = tag("path", d=f"M{coordinate(first)} {coordinate(y)}H{coordinate(last)}{ends}", class_="error")
    return join([bar, whisker])
