"""A matrix as coloured cells: who disturbs whom, accuracy of each task after each task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from ramet.errors import ConfigError
from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.palette import NUM_LEVELS, level_of
from ramet.reports.charts.scales import finite
from ramet.reports.charts.svg import Point, coordinate, fit, group, join, tag, text_width
from ramet.reports.formats import Format, Number, as_number, significant, write

Level: TypeAlias = Callable[[float], int]

_MANY_CELLS = 200
_SMALLEST_CELL = 4.0  # below this, neighbours cannot be told apart
_MAX_COLUMN_NAME = 90.0
_FEW_COLUMNS, _WIDEST_CELL = 8, 72.0
_BAR_WIDTH = 210.0
_GAP_SIGN = 84.0  # the room for the sign of a missing value, beside the colour bar
_SHADES = ("on-weak",) * 6 + ("on-middle",) * 2 + ("on-strong",) * 3  # the colour of a text on each level


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[Number]],
    *,
    row_label: str = "",
    column_label: str = "",
    value_label: str = "",
    centre: float | None = 0.0,
    span: tuple[float, float] | None = None,
    marked: Iterable[tuple[int, int]] = (),
    form: Format = significant,
) -> Chart:
    """A matrix, row by row, as cells whose colour is their value; a missing value is an empty cell.

    Of a large matrix the scale ends at the 98th percentile of the distances from the centre, so that one extreme cell
    does not bleach all the others; the scale's ends then say "and beyond".

    ``centre`` is the value without colour, such as 0 for a change; if none, the lowest is without colour. ``span`` are
    the ends of the scale, the lower one without colour, where several maps are to be compared. ``marked`` cells, by row
    and column, get a frame.
    """
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise ConfigError(f"A heat map needs a value for each of {len(rows)} rows and {len(columns)} columns.")
    spoken = f"Heat map of {value_label or 'values'}, {len(rows)} rows and {len(columns)} columns."
    known = finite(value for row in values for value in row)
    middle = centre if centre is not None else min(known, default=0.0)
    limit = _limit([abs(value - middle) for value in known])
    if span is not None:
        centre, middle, limit = None, span[0], span[1] - span[0] or 1.0
    framed = list(marked)

    def level(value: float) -> int:
        return level_of((value - middle) / limit)

    def draw(width: float) -> Drawing:
        if not known:
            return message("There is nothing to draw here: no value was recorded.", width)
        grid = _place(rows, columns, width, caption=bool(row_label or column_label))
        size = font_size(width)
        texts = [[write(value, form).replace("-", "−") for value in line] for line in values]
        written = grid.cell >= 24 and all(text_width(text, size) < grid.cell - 2 for line in texts for text in line)
        parts = [
            *_axis_words(row_label, column_label, width, size),
            *_row_names(rows, grid, size),
            *_column_names(columns, grid, size),
            _cells(values, level, grid, blank="blank" if written else "missing"),
        ]
        if written:
            parts += _values(values, texts, level, grid, size)
        parts += [_frame(row, column, grid) for row, column in framed]
        parts.append(_readout(rows, columns, texts, value_label, grid))
        bottom = grid.top + grid.cell_height * len(rows) + 16
        has_gaps = not written and len(known) < len(rows) * len(columns)
        bar, height = _colour_bar(
            _ends(known, middle, limit, form, signed=centre is not None),
            fit(value_label, grid.width - grid.left, size),
            (grid.left, bottom),
            grid.width - grid.left,
            size,
            gaps=has_gaps,
        )
        return Drawing(grid.width, bottom + height, join([*parts, bar]))

    def data() -> Rows:
        return [[row_label, *columns], *([name, *line] for name, line in zip(rows, values, strict=True))]

    return Chart(spoken, draw, data)


@dataclass(frozen=True)
class _Grid:
    """Where the cells are, in pixels."""

    left: float
    top: float
    cell: float
    cell_height: float
    width: float
    upright: bool


def _place(rows: Sequence[str], columns: Sequence[str], width: float, *, caption: bool) -> _Grid:
    size = font_size(width)
    left = min(max(text_width(name, size) for name in rows), width * 0.3) + 10
    widest = max(text_width(name, size) for name in columns)
    largest = 46.0 if len(columns) <= 16 else 9.0 if width >= 600 else 20.0
    if len(columns) <= _FEW_COLUMNS and widest + 8 <= _WIDEST_CELL:
        largest = max(largest, widest + 8)  # a few short names need not be turned
    cell = min((width - left - 2) / len(columns), largest)
    if cell < _SMALLEST_CELL:
        cell, width = _SMALLEST_CELL, left + _SMALLEST_CELL * len(columns) + 2
    upright = widest + 6 > cell
    head = min(widest, _MAX_COLUMN_NAME) + 8 if upright else size * 1.6
    lines = (1 if width >= 600 else 2) if caption else 0
    return _Grid(left, size * 1.55 * lines + head, cell, min(cell, 34.0), width, upright)


def _limit(distances: list[float]) -> float:
    """How far from the centre the scale reaches."""
    if not distances or max(distances) == 0:
        return 1.0
    if len(distances) < _MANY_CELLS:
        return max(distances)
    reach = sorted(distances)[math.ceil(0.98 * len(distances)) - 1] or max(distances)
    unit = 10.0 ** (math.floor(math.log10(reach)) - 1)
    return math.ceil(reach / unit - 1e-9) * unit  # two figures are enough for the end of a scale


def _axis_words(row_label: str, column_label: str, width: float, size: float) -> list[Markup]:
    words = [f"rows: {row_label}"] * bool(row_label) + [f"columns: {column_label}"] * bool(column_label)
    lines = [" · ".join(words)] if width >= 600 else words
    return [
        tag("text", fit(line, width, size), x=0, y=size * (1 + 1.5 * index), class_="muted")
        for index, line in enumerate(lines)
        if line
    ]


def _stride(cell: float, size: float) -> int:
    """Every how many rows a name fits: 1, 2, 4, 8, so that names fall on the blocks of a regular space."""
    return int(2 ** max(0, math.ceil(math.log2(size * 1.15 / cell))))


def _row_names(rows: Sequence[str], grid: _Grid, size: float) -> list[Markup]:
    return [
        tag("text", fit(name, grid.left - 10, size), x=grid.left - 7, y=_middle(grid, index, size), class_="tick end")
        for index, name in enumerate(rows)
        if index % _stride(grid.cell_height, size) == 0
    ]


def _column_names(columns: Sequence[str], grid: _Grid, size: float) -> list[Markup]:
    names = []
    for index, name in enumerate(columns):
        x = grid.left + grid.cell * (index + 0.5)
        if not grid.upright:
            names.append(tag("text", name, x=x, y=grid.top - 7, class_="tick middle"))
        elif index % _stride(grid.cell, size) == 0:
            x += size * 0.35
            turned = f"rotate(-90 {coordinate(x)} {coordinate(grid.top - 6)})"
            short = fit(name, _MAX_COLUMN_NAME, size)
            names.append(tag("text", short, x=x, y=grid.top - 6, transform=turned, class_="tick"))
    return names


def _middle(grid: _Grid, row: int, size: float) -> float:
    return grid.top + grid.cell_height * (row + 0.5) + size * 0.35


def _cells(values: Sequence[Sequence[Number]], level: Level, grid: _Grid, blank: str) -> Markup:
    """One path for each colour, in units of cells: thousands of cells in a few short elements.

    Neighbours of one colour in a row are one rectangle, so that an empty half of a matrix takes a line a row.
    """
    squares: dict[str, list[str]] = {}
    for row, line in enumerate(values):
        numbers = map(as_number, line)
        names = [blank if real is None else f"l{level(real)}" for real in numbers]
        column = 0
        for name, run in itertools.groupby(names):
            length = len(list(run))
            squares.setdefault(name, []).append(f"M{column} {row}h{length}v1h-{length}z")
            column += length
    paths = [tag("path", d="".join(parts), class_=name) for name, parts in sorted(squares.items())]
    scaled = f"translate({grid.left:.2f} {grid.top:.2f}) scale({grid.cell:.4f} {grid.cell_height:.4f})"
    return group(*paths, class_="cells", transform=scaled)


def _values(
    values: Sequence[Sequence[Number]], texts: Sequence[Sequence[str]], level: Level, grid: _Grid, size: float
) -> list[Markup]:
    half = NUM_LEVELS // 2
    drawn = []
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            real = as_number(value)
            if real is None:
                continue
            shade = _SHADES[abs(level(real) - half)]
            x = grid.left + grid.cell * (column + 0.5)
            drawn.append(tag("text", texts[row][column], x=x, y=_middle(grid, row, size), class_=f"middle {shade}"))
    return drawn


def _frame(row: int, column: int, grid: _Grid) -> Markup:
    inset = min(1.5, grid.cell / 6)
    return tag(
        "rect",
        x=grid.left + grid.cell * column + inset,
        y=grid.top + grid.cell_height * row + inset,
        width=grid.cell - 2 * inset,
        height=grid.cell_height - 2 * inset,
        class_="frame",
    )


def _readout(
    rows: Sequence[str], columns: Sequence[str], texts: Sequence[Sequence[str]], label: str, grid: _Grid
) -> Markup:
    """The names and values for the page's script, which tells the cell under the pointer."""
    return tag(
        "rect",
        x=grid.left,
        y=grid.top,
        width=grid.cell * len(columns),
        height=grid.cell_height * len(rows),
        class_="matrix",
        data_rows=_lines(rows),
        data_columns=_lines(columns),
        data_values=_lines(text for line in texts for text in line),
        data_label=label,
    )


def _lines(names: Iterable[str]) -> str:
    return "\n".join(" ".join(name.split()) for name in names)


def _ends(known: list[float], middle: float, limit: float, form: Format, *, signed: bool) -> list[str]:
    """What stands under the colour bar: its two ends and, if there is one, its centre."""
    low, high = middle - limit, middle + limit
    low_text = ("≤ " if min(known) < low - 1e-12 else "") + write(low, form)
    high_text = ("≥ " if max(known) > high + 1e-12 else "") + write(high, form)
    texts = [low_text, write(middle, form), high_text] if signed else [write(middle, form), high_text]
    return [text.replace("-", "−") for text in texts]


def _colour_bar(
    texts: Sequence[str], label: str, corner: Point, room: float, size: float, *, gaps: bool
) -> tuple[Markup, float]:
    """The scale under the cells, and its height; ``gaps`` adds the sign for a missing value."""
    left, top = corner
    half = NUM_LEVELS // 2
    signed = len(texts) == 3
    levels = range(NUM_LEVELS) if signed else range(half, NUM_LEVELS)
    bar_width = min(_BAR_WIDTH, room - (_GAP_SIGN if gaps else 0))
    step = bar_width / len(levels)
    label_height = size * 1.6 if label else 0.0
    parts = [tag("text", label, x=left, y=top + size, class_="muted")] if label else []
    top += label_height
    parts += [
        tag("rect", x=left + step * index, y=top, width=step + 0.2, height=10, class_=f"l{level}")
        for index, level in enumerate(levels)
    ]
    anchors = ("", "middle", "end") if signed else ("", "end")
    for index, (text, anchor) in enumerate(zip(texts, anchors, strict=True)):
        x = left + bar_width * index / (len(texts) - 1)
        parts.append(tag("text", text, x=x, y=top + 14 + size, class_=f"tick {anchor}".strip()))
    if gaps:
        x = left + bar_width + 22
        parts.append(tag("rect", x=x, y=top, width=10, height=10, class_="missing"))
        parts.append(tag("text", "no value", x=x - 1, y=top + 14 + size, class_="tick"))
    return group(*parts, class_="cells"), label_height + 20 + size
