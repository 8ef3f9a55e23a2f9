"""A network before and after it grew: a block for each layer, as wide as it has channels, what is new in a colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ramet.reports.charts.chart import Chart, Drawing, Rows, font_size, message
from ramet.reports.charts.marks import LegendEntry, legend, series_class
from ramet.reports.charts.svg import fit, group, join, tag, text_width
from ramet.reports.formats import count

_KEPT, _GROWN, _ADDED = 6, 2, 1  # the palette's grey, green and vermilion
_ROW, _BLOCK = 30.0, 20.0
_GAP = 14.0
_LEAST = 3.0


@dataclass(frozen=True)
class Block:
    """A layer by its channels before, none where it was not there, and after; the note says why it stays as it is."""

    name: str
    kind: str
    before: int | None
    after: int
    note: str = ""


def layer_chart(blocks: Sequence[Block], *, before: str = "before", after: str = "after") -> Chart:
    """Two columns of blocks, from the input at the top to the output at the bottom, to one scale."""
    changes = [f"{b.name} from {b.before or 0} to {b.after}" for b in blocks if b.before != b.after]
    spoken = f"A network of {len(blocks)} layers before and after it grew: {'; '.join(changes[:12])}."
    largest = max((max(block.before or 0, block.after) for block in blocks), default=0)
    entries = [
        LegendEntry(_KEPT, "as before", "box"),
        LegendEntry(_GROWN, "added channels", "box"),
        LegendEntry(_ADDED, "a new layer", "box"),
    ]
    has_new = any(block.before is None for block in blocks)

    def draw(width: float) -> Drawing:
        if not largest:
            return message("There is nothing to draw here: the network has no layers with channels.", width)
        size = font_size(width)
        key, top = legend(entries if has_new else entries[:2], 0.0, width, size)
        longest = max(text_width(_title(block, width), size) for block in blocks)
        label = min(longest + 6, width * (0.3 if width >= 600 else 0.34))
        figures = max(text_width(count(block.after), size) for block in blocks) + 8
        room = (width - label - 2 * _GAP) / 2 - figures  # for the widest block of a column
        centres = (label + _GAP + room / 2, label + 2 * _GAP + figures + room + room / 2)
        scale = room / largest
        top += size * 1.6
        heads = [
            tag("text", fit(text, room + figures, size), x=centre - room / 2, y=top - size * 0.5, class_="muted")
            for text, centre in zip((before, after), centres, strict=True)
        ]
        parts: list[Markup] = [key, *heads]
        for number, block in enumerate(blocks):
            y = top + number * _ROW + 6
            parts.append(_draw(block, y, label, centres, room, scale, size, width))
        return Drawing(width, top + len(blocks) * _ROW + 10, join(parts))

    def data() -> Rows:
        return [
            ["layer", "kind", before, after, "note"],
            *([b.name, b.kind, b.before, b.after, b.note] for b in blocks),
        ]

    return Chart(spoken, draw, data)


def _title(block: Block, width: float) -> str:
    return f"{block.name} · {block.kind}" if width >= 600 and block.kind else block.name


def _draw(
    block: Block,
    y: float,
    label: float,
    centres: tuple[float, float],
    room: float,
    scale: float,
    size: float,
    width: float,
) -> Markup:
    middle = y + _BLOCK / 2 + size * 0.35
    told = [f"{block.name}, {block.kind}" if block.kind else block.name]
    told.append(f"{block.before or 0} channels before, {block.after} after")
    told += [block.note] if block.note else []
    parts = [
        tag("title", "\n".join(told)),
        tag("rect", x=0, y=y - 5, width=width, height=_ROW, class_="area"),
        tag("text", fit(_title(block, width), label, size), x=0, y=middle),
    ]
    left, right = centres
    if block.before is not None:
        parts += _block(block.before, left, y, scale, _KEPT)
        parts.append(_figure(block.before, left + room / 2, middle))
    if block.before is None:
        parts += _block(block.after, right, y, scale, _ADDED)
    else:
        parts += _block(min(block.before, block.after), right, y, scale, _KEPT)
        parts += _sides(block.before, block.after, right, y, scale)
    parts.append(_figure(block.after, right + room / 2, middle))
    return group(*parts, class_="hit")


def _block(channels: int, centre: float, y: float, scale: float, series: int) -> list[Markup]:
    wide = max(channels * scale, _LEAST)
    rectangle = tag("rect", x=centre - wide / 2, y=y, width=wide, height=_BLOCK, rx=2, class_="bar")
    return [group(rectangle, class_=series_class(series))]


def _sides(before: int, after: int, centre: float, y: float, scale: float) -> list[Markup]:
    """What was added, half of it on either side."""
    if after <= before:
        return []
    inner, outer = max(before * scale, _LEAST) / 2, max(after * scale, _LEAST) / 2
    pieces = [
        tag("rect", x=x, y=y, width=outer - inner, height=_BLOCK, rx=2, class_="bar")
        for x in (centre - outer, centre + inner)
    ]
    return [group(*pieces, class_=series_class(_GROWN))]


def _figure(channels: int, x: float, y: float) -> Markup:
    return tag("text", count(channels), x=x + 6, y=y, class_="figures")
