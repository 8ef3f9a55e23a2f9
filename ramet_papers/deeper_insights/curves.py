"""Curves of a figure, on a page beside the runs: over mini-batches or epochs, a line an instance or a child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ramet.reports import Page
from ramet.reports.charts import Line, line_chart
from ramet_papers.experiment import Experiment


@dataclass(frozen=True)
class Curves:
    """One chart: lines by name over the same points."""

    caption: str
    x_label: str
    y_label: str
    points: Sequence[int]
    lines: Mapping[str, Sequence[float]]


def write_curves(experiment: Experiment, title: str, charts: Sequence[Curves]) -> str:
    """Write the charts of a figure, and say where they are."""
    page = Page(title, experiment.command)
    for curves in charts:
        lines = [Line(name, list(curves.points), list(values)) for name, values in curves.lines.items()]
        page.chart(line_chart(lines, x_label=curves.x_label, y_label=curves.y_label), curves.caption)
    experiment.folder.mkdir(parents=True, exist_ok=True)
    path = experiment.folder / f"{experiment.target.partition('/')[2]}.html"
    page.write(path)
    return f"Curves: {path}"
