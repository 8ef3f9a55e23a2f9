"""A table's figures with matplotlib, for notebooks and papers; the reports themselves do without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ramet.errors import ConfigError, MissingExtraError
from ramet.reports.formats import Estimate, as_number
from ramet.reports.tables import Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_table(table: Table, column: str | None = None, ax: Axes | None = None) -> Axes:
    """The values of one column as dots, a row each, with intervals where there are some.

    Args:
        table: what is drawn.
        column: which of its columns; by default the first that says which of its values is best.
        ax: where; by default a figure of its own, as high as the rows need.

    Raises:
        ConfigError: if there is no such column, or no number in it.
        MissingExtraError: if matplotlib is not installed.
    """
    try:
        from matplotlib.ticker import FuncFormatter
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    names = [each.name for each in table.described]
    compared = [each.name for each in table.described if each.best is not None]
    if column is None and not compared:
        raise ConfigError(f"a plot needs a column that is compared, but the table has {', '.join(names)}; name one.")
    chosen = compared[0] if column is None else column
    if chosen not in names:
        raise ConfigError(f"column must be one of {', '.join(names)}, but got {chosen!r}.")
    place = names.index(chosen)
    cells = [_estimate(row[place]) for row in table.rows]
    rows = [
        (str(row[0]), value, cell)
        for row, cell in zip(table.rows, cells, strict=True)
        if (value := as_number(cell.value)) is not None
    ]
    if not rows:
        raise ConfigError(f"a plot needs numbers, but the column {chosen!r} has none.")
    drawn = ax
    if drawn is None:
        drawn = _figure(figsize=(7, 1 + 0.4 * len(rows)), layout="constrained").add_subplot()
    heights = range(len(rows), 0, -1)  # the first row at the top
    for height, (_, _, cell) in zip(heights, rows, strict=True):
        low, high = as_number(cell.low), as_number(cell.high)
        if low is not None and high is not None:
            drawn.plot([low, high], [height, height], color="C0", alpha=0.45, linewidth=3)
    drawn.plot([value for _, value, _ in rows], list(heights), "o", color="C0")
    drawn.set_yticks(list(heights), [name for name, _, _ in rows])
    drawn.set_ylim(0.4, len(rows) + 0.6)
    drawn.set_xlabel(chosen)
    if (form := table.described[place].form) is not None:  # shares as per cent, as the table has them
        drawn.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))
    drawn.grid(axis="x", alpha=0.4)
    return drawn


def _figure(**options: Any) -> Figure:
    """A figure that is shown where figures are: of pyplot in a notebook, or where somebody uses it; else by itself."""
    notebook = "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None
    made: Figure
    if notebook or "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        made = pyplot.figure(**options)
    else:
        from matplotlib import figure

        made = figure.Figure(**options)
    return made


def _estimate(cell: Cell) -> Estimate:
    return cell if isinstance(cell, Estimate) else Estimate(as_number(cell))
