"""What every job gives: figures as attributes, words for a terminal, a page, a frame, a file."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from ramet.errors import ConfigError, MissingExtraError
from ramet.fields import from_json, to_json
from ramet.reports.tables import Headline, Table
from ramet.runs import read_config
from ramet.runs.atomic import write_atomically
from ramet.runs.encoding import Json, decode, encode
from ramet.runs.regular import read_regular
from ramet.runs.showing import without_folders

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from ramet.reports.page import Page


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """The result of a job, and the run directory, if it has one."""

    folder: Path | None = field(default=None, compare=False, repr=False)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Before the dataclass is made, which would write out all figures.
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        best = self.headline()
        told = [] if best is None else [f"{best.name} {best.text}" + (f" of {best.of}" if best.of else "")]
        told += [] if self.folder is None else [str(self.folder)]
        return f"{type(self).__name__}({'; '.join(told)})"

    @abstractmethod
    def words(self) -> list[str]:
        """What follows from the figures, a line each."""

    def table(self) -> Table:
        """The figures that a reader looks at first."""
        made: Table = self._views().table(self)
        return made

    def page(self, config: Json) -> Page:
        """The report; ``config`` is what the run's ``config.json`` holds."""
        made: Page = self._views().page(self, config)
        return made

    def _views(self) -> ModuleType:
        """The ``report.py`` beside the result, which has its table and its page; figures are read without charts."""
        return importlib.import_module(f"{type(self).__module__.rpartition('.')[0]}.report")

    @property
    def report(self) -> Path | None:
        """Where the report is."""
        return None if self.folder is None else self.folder / "report.html"

    def summary(self) -> str:
        """The table and the words as plain text."""
        return "\n".join([self.table().to_text(), "", *self.words()])

    def headline(self) -> Headline | None:
        """The one figure that stands for the result: the best of the first column of its table that is compared."""
        return self.table().headline()

    def show(self) -> None:
        """The table and the words on standard output, as wide as the terminal."""
        self.table().print()
        print("\n".join(["", *self.words()]))

    def to_frame(self) -> DataFrame:
        """The table as a pandas frame; a ``MissingExtraError`` if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "pandas") from None
        return pandas.DataFrame(self.table().to_json())

    def plot(self, column: str | None = None, ax: Axes | None = None) -> Axes:
        """A column of the table with matplotlib, by default the first that is compared, with its intervals.

        Gives matplotlib's axes, whose ``figure`` a notebook shows and ``savefig`` writes; a ``MissingExtraError`` if
        matplotlib is not installed.
        """
        from ramet.reports.plots import plot_table

        return plot_table(self.table(), column, ax)

    def _repr_html_(self) -> str:
        """The table, its notes and the words in a notebook; the best of a column is bold."""
        from html import escape

        table = self.table()
        rows = ""
        for row in table.html_rows():
            texts = [f"{cell.value} {cell.interval}".strip() for cell in row]
            cells = [
                f"<b>{escape(text)}</b>" if cell.best else escape(text) for text, cell in zip(texts, row, strict=True)
            ]
            rows += "<tr>" + "".join(f"<td>{text}</td>" for text in cells) + "</tr>"
        heads = "".join(f"<th>{escape(name)}</th>" for name, _ in table.headings)
        parts = [f"<table><tr>{heads}</tr>{rows}</table>"]
        parts += [f"<p><small>{escape(table.caption)}</small></p>"] if table.caption else []
        for is_listed, lines in groupby(filter(None, self.words()), lambda line: line.startswith("- ")):
            if is_listed:
                parts.append("<ul>" + "".join(f"<li>{escape(line[2:])}</li>" for line in lines) + "</ul>")
            else:
                parts += [f"<p>{escape(line)}</p>" for line in lines]
        return "".join(parts)

    def write_report(self) -> Path:
        """Write ``report.html`` into the run directory, and give its path."""
        if self.folder is None or self.report is None:
            raise ConfigError("a report is written into a run directory, but this result has none.")
        self.page(without_folders(read_config(self.folder))).write(self.report)
        return self.report

    def to_json(self) -> Json:
        """The figures as JSON values."""
        values: Json = to_json(replace(self, folder=None))
        del values["folder"]
        return values

    @classmethod
    def from_json(cls, values: Json, folder: Path | None = None) -> Self:
        """The result from JSON values."""
        return replace(from_json(cls, values), folder=folder)

    def save(self, path: str | Path) -> None:
        """Write the figures into a JSON file; ``load`` reads it."""
        write_atomically(Path(path), encode(self.to_json(), indent=1).encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The result that a file or a finished run directory holds; a ``ConfigError`` if it holds none."""
        place = Path(path)
        if place.is_dir():
            from ramet.jobs.runner import read_result

            found: Any = read_result(place)
            if not isinstance(found, cls):
                raise ConfigError(f"{place} must hold a {cls.__name__}, but holds a {type(found).__name__}.")
            return found
        try:
            return cls.from_json(decode(read_regular(place)))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{place} must hold a result, but: {error}.") from None
