"""What a benchmark gives: a figure, the limit that it must keep, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    Args:
        name: what was measured.
        value: the figure.
        limit: what it must not exceed, or must reach.
        at_least: whether the limit must be reached instead of kept.
        unit: what stands behind figure and limit; empty for a ratio.
        detail: what the figure is made of.
    """

    name: str
    value: float
    limit: float
    at_least: bool = False
    unit: str = ""
    detail: str = ""

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def cells(self) -> list[str]:
        sign = ">=" if self.at_least else "<="
        return [
            self.name,
            f"{self.value:.2f}{self.unit}",
            f"{sign} {self.limit:g}{self.unit}",
            "yes" if self.holds else "NO",
            self.detail,
        ]


HEADINGS = ["what", "measured", "limit", "holds", "detail"]


def as_table(rows: list[Row]) -> str:
    """The rows as a Markdown table whose columns line up in a terminal."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
