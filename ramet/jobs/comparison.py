"""Runs side by side: what was asked differently, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ramet.errors import ConfigError
from ramet.jobs.result import Result
from ramet.jobs.runner import read_result
from ramet.reports.charts import Chart, dot_chart
from ramet.reports.formats import Estimate, number
from ramet.reports.page import Page, flatten
from ramet.reports.tables import Cell, Column, Table
from ramet.runs import read_config
from ramet.runs.showing import without_folders


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs: its name among the others, the values that it was asked with, and its result."""

    name: str
    config: dict[str, str]
    result: Result


@dataclass(frozen=True)
class Comparison:
    """Finished runs side by side; ``compare`` makes one."""

    runs: tuple[ComparedRun, ...]

    @property
    def is_one_kind(self) -> bool:
        """Whether all are results of one job, so that their tables have the same rows and columns."""
        return len({type(run.result) for run in self.runs}) == 1

    def summary(self) -> Table:
        """The best figure of each run."""
        rows: list[list[Cell]] = []
        for run in self.runs:
            best = run.result.headline()
            kind = run.config["kind"]
            cells = [None] * 4 if best is None else [best.name, best.best, best.text, best.of]
            rows.append([run.name, kind, *cells])
        caption = "" if self.is_one_kind else "Runs of different jobs: an error and an accuracy are not one scale."
        columns = ["run", "job", "figure", "best is", "best", "of"]
        return Table(columns, rows, title="The best of each run", caption=caption)

    def differences(self) -> Table:
        """The values of the configurations that are not the same in all runs; what a run does not have is missing.

        Of different jobs, only what all of them have: the rest differs because the jobs do.
        """
        names = list(dict.fromkeys(name for run in self.runs for name in run.config if name != "kind"))
        if not self.is_one_kind:
            names = [name for name in names if all(name in run.config for run in self.runs)]
        rows: list[list[Cell]] = []
        for name in names:
            values = [run.config.get(name) for run in self.runs]
            if len(set(values)) > 1:
                short = [without_folders(value) for value in values]
                rows.append([name, *(short if len(set(short)) > 1 else values)])
        caption = "" if rows else "Nothing: all settings are the same."
        if not self.is_one_kind:
            caption = f"{caption} Settings that only some of the jobs have are left out.".strip()
        return Table(["setting", *self._names()], rows, title="What was asked differently", caption=caption)

    def figures(self) -> list[Table]:
        """For each column that is compared in the results' own tables, a table with a column a run.

        Only for runs of one job; a row that a run does not have is missing there.
        """
        if not self.is_one_kind:
            return []
        tables = [run.result.table() for run in self.runs]
        compared = [column for column in tables[0].described if column.best is not None]
        return [self._side_by_side(column, tables) for column in compared]

    def _side_by_side(self, column: Column, tables: Sequence[Table]) -> Table:
        found: list[dict[str, Cell]] = []
        for table in tables:
            names = [each.name for each in table.described]
            place = names.index(column.name) if column.name in names else None
            found.append({} if place is None else {str(row[0]): row[place] for row in table.rows})
        rows: list[list[Cell]] = [
            [name, *(cells.get(name) for cells in found)] for name in dict.fromkeys(n for cells in found for n in cells)
        ]
        first = tables[0].described[0].name
        columns = [Column(first), *(Column(name, column.form) for name in self._names())]
        return Table(columns, rows, title=column.name, caption=f"The {column.best} is the best.")

    def _names(self) -> list[str]:
        return [run.name for run in self.runs]

    def tables(self) -> list[Table]:
        """All tables, for a terminal."""
        return [self.summary(), self.differences(), *self.figures()]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "runs": self.summary().to_json(),
            "differences": self.differences().to_json(),
            "figures": {table.title: table.to_json() for table in self.figures()},
        }

    def page(self) -> Page:
        """The comparison as a page, with a chart of each figure."""
        page = Page(f"{len(self.runs)} runs side by side", ", ".join(self._names()))
        best = [(run.name, headline) for run in self.runs if (headline := run.result.headline()) is not None]
        is_alike = len({(headline.name, headline.best) for _, headline in best}) == 1  # one metric, not two
        if self.is_one_kind and is_alike:
            sign = 1 if best[0][1].best == "highest" else -1
            name, top = max(best, key=lambda each: sign * each[1].value)
            words = f"{name} has the {top.best} {top.name}: {top.text}."
            page.verdict(words, "Whether a difference is more than chance, intervals and seeds say, not this page.")
        page.section("The best of each run")
        page.table(replace(self.summary(), title=""))
        page.section("What was asked differently")
        page.table(replace(self.differences(), title=""))
        if not self.is_one_kind:
            page.prose("These are runs of different jobs: their figures have no rows in common.")
        for table in self.figures():
            page.section(table.title)
            page.table(replace(table, title=""))
            for place, run in enumerate(self.runs, start=1):
                rows = [row for row in table.rows if row[place] is not None]
                if rows:
                    page.chart(_dots(rows, place, table), f"{table.title} of {run.name}.", title=run.name)
        return page


def _dots(rows: list[Sequence[Cell]], place: int, table: Table) -> Chart:
    """A dot for each row; all charts of a table have one axis, so that they can be compared by eye."""
    everything = [_estimate(cell) for row in table.rows for cell in row[1:] if cell is not None]
    ends = [end for each in everything for end in (each.value, each.low, each.high) if end is not None]
    return dot_chart(
        [str(row[0]) for row in rows],
        [_estimate(row[place]) for row in rows],
        x_label=table.title,
        form=table.described[place].form or number,
        include=[float(min(ends)), float(max(ends))],
    )


def _estimate(cell: Cell) -> Estimate:
    if isinstance(cell, Estimate):
        return cell
    return Estimate(cell if isinstance(cell, (int, float)) else None)


def compare(paths: Sequence[Path]) -> Comparison:
    """Finished runs side by side.

    Raises:
        ConfigError: if there are fewer than two, one occurs twice, or one is not a finished run.
    """
    if len(paths) < 2:
        raise ConfigError(f"compare needs at least two runs, but got {len(paths)}.")
    resolved = [path.resolve() for path in paths]
    for place, path in enumerate(resolved):
        if path in resolved[:place]:
            raise ConfigError(f"compare needs different runs, but got {paths[place]} twice.")
    return Comparison(
        tuple(
            ComparedRun(name, {"kind": config["kind"]} | dict(flatten(config["config"])), read_result(path))
            for name, path, config in zip(_short_names(resolved), paths, map(read_config, paths), strict=True)
        )
    )


def _short_names(paths: Sequence[Path]) -> list[str]:
    """As many last parts of each path as tell them apart.

    >>> _short_names([Path("/a/x/run"), Path("/a/y/run")]), _short_names([Path("/a/one"), Path("/a/two")])
    (['x/run', 'y/run'], ['one', 'two'])
    """
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names
