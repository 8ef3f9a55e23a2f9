"""`ramet compare`: finished runs side by side, on the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ramet.cli.options import FLAG, print_json


def compare(
    runs: Annotated[tuple[Path, ...], Parameter(negative=())],
    *,
    report: Path | None = None,
    json: Annotated[bool, FLAG] = False,
) -> None:
    """Put finished runs side by side: the best of each, what was asked differently, and figure by figure.

    Runs of one job are compared row by row of their tables; of runs of different jobs, only the best figures and the
    settings stand side by side. Nothing is trained and no run is changed.

    For example:

    - `ramet compare runs/guarded runs/plain`
    - as a page with charts: `ramet compare runs/seed-* --report seeds.html`

    Args:
        runs: the run directories, two or more.
        report: write a page of HTML there, with a chart of each figure.
        json: print the comparison as one JSON object on standard output.
    """
    from ramet.jobs.comparison import compare as side_by_side

    found = side_by_side(runs)
    if report is not None:
        found.page().write(report)
    if json:
        print_json(found.to_json())
        return
    for place, table in enumerate(found.tables()):
        if place:
            print()
        table.print()
    if report is not None:
        print(f"\nReport: {report}")
