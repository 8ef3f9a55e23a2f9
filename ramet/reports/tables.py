"""A table that is described once and shown anywhere: on the page, on a terminal, in a log, as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

from ramet.errors import ConfigError
from ramet.reports.formats import Estimate, Format, as_number, count, number, write
from ramet.runs.encoding import JSON

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Cell: TypeAlias = str | float | int | bool | Estimate | None

_BEST_NOTE = "* the best of its column"


@dataclass(frozen=True)
class Column:
    """One column.

    Args:
        name: The heading.
        form: How its numbers are written; by default whole numbers as counts and others with two decimals.
        best: Which of its values is marked, if any.
    """

    name: str
    form: Format | None = None
    best: Literal["highest", "lowest"] | None = None

    def text(self, cell: Cell) -> str:
        """A cell of this column as people read it."""
        return cell.text(self.form) if isinstance(cell, Estimate) else write(cell, self._form_of(cell))

    def _form_of(self, cell: Cell) -> Format:
        return self.form or (count if isinstance(cell, Integral) else number)


Columns: TypeAlias = Sequence[Column | str]
"""A plain string is a column without a format."""


@dataclass(frozen=True)
class HtmlCell:
    """A cell for the page's template: the value and the interval apart, so that they can be set differently."""

    value: str
    interval: str
    classes: str
    best: bool


WORDY = 40
"""Characters above which the text of a cell is a sentence."""


@dataclass(frozen=True)
class Headline:
    """The one figure that a table stands for: what it is, its value and text, and the row that it is of."""

    name: str
    value: float
    text: str
    of: str
    best: Literal["highest", "lowest"]


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    >>> table = Table(
    ...     ["ranking", Column("correlation", best="highest")],
    ...     [["shared weights", Estimate(0.512, 0.43, 0.58)], ["parameter count", 0.37]],
    ... )
    >>> print(table.to_text())
    ranking          correlation
    ---------------  -------------------
    shared weights   0.51 [0.43, 0.58] *
    parameter count  0.37
    * the best of its column

    Args:
        columns: The columns; a plain string is a column without a format.
        rows: One cell for each column: text, numbers, estimates, or None where there is nothing.
        title: What the table is about.
        caption: What to see in it.

    Raises:
        ConfigError: If a row has more or fewer cells than there are columns.
    """

    columns: Columns
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    caption: str = ""
    _columns: tuple[Column, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        made = tuple(Column(column) if isinstance(column, str) else column for column in self.columns)
        object.__setattr__(self, "_columns", made)
        for row in self.rows:
            if len(row) != len(made):
                raise ConfigError(f"A row needs a cell for each of the {len(made)} columns, but got {len(row)}.")

    def headline(self) -> Headline | None:
        """The best value of the first column that says which is best; none without such a column or value.

        >>> table = Table(["method", Column("error", best="lowest")], [["a", 0.3], ["b", 0.2]])
        >>> table.headline().name, table.headline().value, table.headline().of
        ('error', 0.2, 'b')
        """
        for index, column in enumerate(self._columns):
            values = {which: value for which, row in enumerate(self.rows) if (value := _value(row[index])) is not None}
            if column.best is not None and values:
                which = (max if column.best == "highest" else min)(values, key=lambda place: values[place])
                cell = self.rows[which][index]
                of = self._columns[0].text(self.rows[which][0]) if index else ""
                return Headline(column.name, values[which], column.text(cell), of, column.best)
        return None

    @property
    def described(self) -> tuple[Column, ...]:
        """The columns, those that were plain strings too."""
        return self._columns

    @property
    def headings(self) -> list[tuple[str, str]]:
        """Each column's name and CSS class."""
        return [(column.name, self._alignment(index)) for index, column in enumerate(self._columns)]

    @property
    def marks_best(self) -> bool:
        """Whether any cell is marked as the best."""
        return any(self._best(index) for index in range(len(self._columns)))

    def html_rows(self) -> list[list[HtmlCell]]:
        """The cells for the page's template."""
        indices = range(len(self._columns))
        best, sides = [self._best(index) for index in indices], [self._alignment(index) for index in indices]
        return [
            [self._html_cell(row[index], index, sides[index], which in best[index]) for index in indices]
            for which, row in enumerate(self.rows)
        ]

    def to_text(self) -> str:
        """Plain text in columns, for files, pipes and logs."""
        cells = [[column.name for column in self._columns], *self._texts(mark=" *")]
        widths = [max((len(row[index]) for row in cells), default=0) for index in range(len(self._columns))]
        cells.insert(1, ["-" * width for width in widths])
        right = [self._alignment(index) == "number" for index in range(len(self._columns))]
        lines = [
            "  ".join(
                text.rjust(width) if end else text.ljust(width)
                for text, width, end in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in cells
        ]
        return "\n".join([*([self.title] if self.title else []), *lines, *self._notes])

    def to_terminal(self) -> RichTable:
        """The table for a terminal; print it with a rich console."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(self.title) if self.title else None,
            caption=Text("\n".join(self._notes)) if self._notes else None,
            title_justify="left",
            caption_justify="left",
            title_style="bold",
            caption_style="dim",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for index, column in enumerate(self._columns):
            side: Literal["left", "right"] = "right" if self._alignment(index) == "number" else "left"
            table.add_column(Text(column.name), justify=side, overflow="fold")
        best = [self._best(index) for index in range(len(self._columns))]
        for which, texts in enumerate(self._texts(mark=" *")):
            styles = ["bold green" if which in best[index] else "" for index in range(len(texts))]
            table.add_row(*[Text(text, style=style) for text, style in zip(texts, styles, strict=True)])
        return table

    def print(self, file: IO[str] | None = None) -> None:
        """Prints the table: drawn on a terminal, as plain text anywhere else."""
        file = file or sys.stdout
        if file.isatty():
            from rich.console import Console

            Console(file=file).print(self.to_terminal())
        else:
            encoding = getattr(file, "encoding", None) or "utf-8"
            file.write(self.to_text().encode(encoding, "replace").decode(encoding) + "\n")

    def to_json(self) -> list[dict[str, JSON]]:
        """One object a row, keyed by the columns' names; an estimate is an object of its own, NaN is null."""
        return [
            {column.name: _json(cell) for column, cell in zip(self._columns, row, strict=True)} for row in self.rows
        ]

    @property
    def _notes(self) -> list[str]:
        """What stands under the table."""
        return ([_BEST_NOTE] if self.marks_best else []) + ([self.caption] if self.caption else [])

    def _texts(self, mark: str) -> list[list[str]]:
        """All cells as text; values get as much room as the longest, and the mark's room where there is none."""
        best = [self._best(index) for index in range(len(self._columns))]
        room = [self._room_of_values(index) for index in range(len(self._columns))]
        rows = []
        for which, row in enumerate(self.rows):
            texts = []
            for index, column in enumerate(self._columns):
                value, _, interval = (
                    column.text(row[index]).partition(" [") if room[index] else (column.text(row[index]), "", "")
                )
                text = value.rjust(room[index]) + (f" [{interval}" if interval else "")
                texts.append(text + ((mark if which in best[index] else " " * len(mark)) if best[index] else ""))
            rows.append(texts)
        return rows

    def _room_of_values(self, index: int) -> int:
        """How long the longest value in a column of estimates is, without its interval; 0 for other columns."""
        if self._alignment(index) != "estimate":
            return 0
        return max(len(self._columns[index].text(row[index]).partition(" [")[0]) for row in self.rows)

    def _best(self, index: int) -> set[int]:
        wanted = self._columns[index].best
        cells = [row[index] for row in self.rows]
        numbers = [_value(cell) for cell in cells]
        values = {which: value for which, value in enumerate(numbers) if value is not None}
        if wanted is None or len(set(values.values())) < 2:  # the best of one, or of equals, is no news
            return set()
        top = max(values.values()) if wanted == "highest" else min(values.values())
        return {which for which, value in values.items() if value == top}

    def _alignment(self, index: int) -> str:
        """Numbers are aligned to the right, unless intervals follow them: then figures line up from the left."""
        cells = [row[index] for row in self.rows if row[index] is not None]
        if any(isinstance(cell, Estimate) for cell in cells):
            return "estimate"
        # NumPy's scalars are real numbers too.
        numeric = all(not isinstance(cell, bool) and isinstance(cell, Real) for cell in cells)
        return "number" if cells and numeric else "words"

    def _html_cell(self, cell: Cell, index: int, side: str, best: bool) -> HtmlCell:
        column = self._columns[index]
        if isinstance(cell, Estimate):
            value, interval = write(cell.value, column.form), cell.interval_text(column.form)
        else:
            value, interval = column.text(cell), ""
        if not isinstance(cell, str):
            value, interval = value.replace("-", "−"), interval.replace("-", "−")
        value = value.replace(" %", "\N{NO-BREAK SPACE}%")  # or a narrow page leaves the sign behind
        # Sentences in a cell need room, or a narrow page breaks them after every word.
        wordy = isinstance(cell, str) and len(value) > WORDY
        classes = side + (" best" if best else "") + (" wordy" if wordy else "")
        return HtmlCell(value, interval, classes, best)


def legend_table(lines: Sequence[str]) -> Table:
    """What the places of short names decide, from lines ``PLACES: MEANING``.

    >>> legend_table(["1 to 2 (layer0 to layer1): 0 conv, 1 skip"]).rows
    [['1 to 2 (layer0 to layer1)', '0 conv, 1 skip']]
    """
    return Table(["places in a name", "what their numbers mean"], [line.split(": ", 1) for line in lines])


def _value(cell: Cell) -> float | None:
    """The number of a cell; none of what is missing, not a number, or words."""
    return as_number(cell.value if isinstance(cell, Estimate) else cell)


def _json(cell: Cell) -> JSON:
    if isinstance(cell, Estimate):
        return {"value": _json(cell.value), "low": _json(cell.low), "high": _json(cell.high)}
    if isinstance(cell, bool | str) or cell is None:
        return cell
    real = as_number(cell)
    return int(real) if real is not None and _is_whole(cell) else real


def _is_whole(cell: object) -> bool:
    return isinstance(cell, Integral)
