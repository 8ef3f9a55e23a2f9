"""What a chart is: a description for those who cannot see it, and a drawing for any width.

A picture that is only shrunk to fit a phone has unreadable text, so every chart is drawn twice, for a desktop and for a
phone, and the style sheet shows one of the two. A drawing may ask for more room than it is offered (64 box plots on a
phone); it then scrolls sideways inside its own box, never the page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from ramet.reports.charts.svg import clean, tag, wrap

Rows: TypeAlias = Sequence[Sequence[str | float | None]]
"""What a chart draws, as a table: the names of the columns, then a row for each thing; none for a missing value."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
WIDE = 820.0
NARROW = 350.0


@dataclass(frozen=True)
class Drawing:
    """The content of an SVG element and the room it takes."""

    width: float
    height: float
    body: Markup


@dataclass(frozen=True)
class Chart:
    """One figure of a report; the functions of this package make them."""

    description: str
    draw: Callable[[float], Drawing]
    data: Callable[[], Rows] = tuple

    def svg(self, width: float = WIDE) -> Markup:
        """One SVG element, drawn for a width; its colours come from the page's style sheet."""
        drawing = self.draw(width)
        size = "wide" if width >= 600 else "narrow"
        manner = "scrolls" if drawing.width > width + 0.5 else "fits"
        element = tag(
            "svg",
            drawing.body,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {drawing.width:.0f} {drawing.height:.0f}",
            width=round(drawing.width),
            height=round(drawing.height),
            class_=f"chart {size} {manner}",
            role="img",
            aria_label=self.description,
            font_size=font_size(width),
        )
        return Markup(clean(element))  # nosec B704

    def csv(self) -> str:
        """The values behind the drawing as comma-separated text; empty where there are none."""
        file = io.StringIO()
        # A spreadsheet would compute a text that begins like a formula, and names come from users.
        rows = [
            ["'" + cell if str(cell)[:1] in _FORMULA and isinstance(cell, str) else cell for cell in row]
            for row in self.data()
        ]
        csv.writer(file, lineterminator="\n").writerows(rows)
        return clean(file.getvalue())

    def markup(self) -> Markup:
        """The drawings for a desktop and for a phone, each in a box of its own."""
        drawn = {"wide": self.svg(WIDE), "narrow": self.svg(NARROW)}
        return Markup("").join(tag("div", svg, class_=f"scroll {name}-only") for name, svg in drawn.items())


def font_size(width: float) -> float:
    """The size of a chart's text in its own pixels."""
    return 13.0 if width >= 600 else 12.0


def message(text: str, width: float) -> Drawing:
    """A drawing that only says something, such as that there is nothing to draw."""
    size = font_size(width)
    lines = wrap(text, width - 32, size, max_lines=4)
    height = 40 + 1.5 * size * len(lines)
    frame = tag("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=6, class_="empty")
    words = [
        tag("text", line, x=width / 2, y=20 + size * (1.1 + 1.5 * index), class_="muted middle")
        for index, line in enumerate(lines)
    ]
    return Drawing(width, height, Markup("").join([frame, *words]))
