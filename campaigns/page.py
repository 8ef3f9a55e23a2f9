"""docs/reliability.md: each campaign's table between two marks, written by the command, the words around it by hand."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import ramet
from campaigns.findings import Finding, Report, as_table
from ramet.runs.atomic import write_atomically

_DIVIDER = re.compile(r" (?<!\\)\| ")

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def write_page(path: Path, reports: Sequence[Report]) -> None:
    """Replace the lines that some campaigns have found again; all others, and the words around them, stay.

    Raises:
        ValueError: The page has no place for a campaign.
    """
    text = path.read_text()
    for report in reports:
        begin, end = f"<!-- {report.name}: begin -->", f"<!-- {report.name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{path.name} must have one place for the campaign {report.name}, but does not.")
        before, _, rest = text.partition(begin)
        old, _, after = rest.partition(end)
        lines = {line[0]: line for line in _lines(old)}
        for finding in report.findings:
            if not _says_more(lines.get(finding.what, []), finding):
                lines[finding.what] = finding.cells()
        block = f"{_said(report, list(lines.values()))}\n\n{as_table(list(lines.values()))}"
        text = f"{before}{begin}\n{block}\n{end}{after}"
    write_atomically(path, text.encode())


def _says_more(line: Sequence[str], finding: Finding) -> bool:
    """Whether a line that is there stays: it was tried, and now it was not, or not half as often.

    So a short campaign takes no long one off the page. A loss does, and takes the place of one.
    """
    if not line or line[1] == "-":
        return False
    if finding.skipped:
        return True
    return line[2] == "0" and not finding.lost and 2 * finding.tried < int(line[1].replace(",", ""))


def _lines(block: str) -> list[list[str]]:
    """The lines of the table that is there."""
    rows = [line for line in block.splitlines() if line.startswith("| ")][2:]
    return [[cell.replace("\\|", "|") for cell in _DIVIDER.split(row[2:-2])] for row in rows]


def _said(report: Report, lines: Sequence[Sequence[str]]) -> str:
    import torch

    size = "long" if report.is_long else "short"
    options = f"{' --long' if report.is_long else ''}{f' --only {report.only!r}' if report.only else ''}"
    command = f"python -m campaigns {report.name}{options} --seed {report.seed} --markdown"
    tried, lost = (sum(int(line[place].replace(",", "")) for line in lines if line[place] != "-") for place in (1, 2))
    return (
        f"**{tried:,} tried, {lost:,} lost**. Last written by the {size} campaign on {date.today().isoformat()}: "
        f"`{command}`, {report.seconds:,.0f} s; ramet {ramet.__version__}, Python {platform.python_version()}, "
        f"torch {torch.__version__}, {platform.system()} on {os.cpu_count()} cores."
    )
