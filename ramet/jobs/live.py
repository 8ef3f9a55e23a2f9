"""A page of a run that goes on, made from its records: how far it is, and the course of every number in them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ramet.jobs.overview import overview
from ramet.reports.charts import Line, line_chart
from ramet.reports.formats import as_number, count, duration, size, write
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Table
from ramet.runs import read_config, read_records
from ramet.runs.loggers.mirror import numbers_of
from ramet.runs.showing import without_folders

_MOST_CHARTS = 12
_MOST_LINES = 6
_LAST_RECORDS = 10


@dataclass
class Series:
    """The course of one number: steps and values, in the order of the records."""

    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def live_page(folder: Path) -> Page:
    """What the records of a run hold so far.

    Raises:
        ConfigError: if the folder is no run.
        RunError: if its records are damaged.
    """
    config = read_config(folder)
    records = read_records(folder) if (folder / "records.jsonl").exists() else []
    known = overview(folder)
    page = Page(f"{config['kind']}: {known.state}", folder.resolve().name)
    page.numbers(
        KeyNumber("records so far", len(records), form=count),
        KeyNumber("last written", known.seconds, "ago", form=duration),
        KeyNumber("on the disk", known.num_bytes, form=size),
    )
    if known.state == "interrupted":
        page.verdict("Nobody is working on this run.", f"`ramet resume {folder.name}` goes on with it.", tone="caution")
    courses = read_courses(records)
    if courses:
        page.section("How it goes")
    for name, lines in list(courses.items())[:_MOST_CHARTS]:
        drawn = [Line(group, each.steps, each.values) for group, each in list(lines.items())[:_MOST_LINES]]
        more = f" The first {_MOST_LINES} of {len(lines)} are drawn." if len(lines) > _MOST_LINES else ""
        page.chart(line_chart(drawn, x_label="step", y_label=name), f"`{name}` of the records so far.{more}")
    page.section("The last records")
    page.table(_last_records(records))
    page.details("Configuration", without_folders(config))
    return page


def read_courses(records: list[dict[str, Any]]) -> dict[str, dict[str, Series]]:
    """For each field that is a number, the course of it in each group of records; one of at least two steps.

    >>> records = [{"key": f"instance/0/epoch/{step}", "loss": 1 / step} for step in (1, 2)]
    >>> read_courses(records)["loss"]["instance/0/epoch"].values
    [1.0, 0.5]
    """
    found: dict[str, dict[str, Series]] = {}
    for position, record in enumerate(records, start=1):
        for group, step, scalars in numbers_of(record, position):
            for name, value in scalars.items():
                if math.isfinite(value):
                    series = found.setdefault(name, {}).setdefault(group, Series())
                    series.steps.append(float(step))
                    series.values.append(value)
    courses = {
        name: {group: series for group, series in groups.items() if len(series.steps) > 1}
        for name, groups in found.items()
    }
    return {name: groups for name, groups in courses.items() if groups}


def _last_records(records: list[dict[str, Any]]) -> Table:
    rows = []
    for record in records[: -_LAST_RECORDS - 1 : -1]:
        numbers = [f"{name} {write(value)}" for name, value in record.items() if as_number(value) is not None]
        rows.append([record["key"], ", ".join(numbers[:6])])
    return Table(["record", "numbers"], rows)
