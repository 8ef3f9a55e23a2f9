"""docs/reliability.md: each campaign's table between two marks, written by the command, the words around it by hand."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import ramet
from campaigns.findings import Report, as_table
from ramet.runs.atomic import write_atomically

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def write_page(path: Path, reports: Sequence[Report]) -> None:
    """Replace the tables of some campaigns; those of the others, and the words around them, stay.

    Raises:
        ValueError: The page has no place for a campaign.
    """
    text = path.read_text()
    for report in reports:
        begin, end = f"<!-- {report.name}: begin -->", f"<!-- {report.name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{path.name} must have one place for the campaign {report.name}, but does not.")
        block = f"{begin}\n{_said(report)}\n\n{as_table(report.findings)}\n{end}"
        text = re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _, block=block: block, text, flags=re.DOTALL)
    write_atomically(path, text.encode())


def _said(report: Report) -> str:
    import torch

    size = "long" if report.is_long else "short"
    command = f"python -m campaigns {report.name}{' --long' if report.is_long else ''} --seed {report.seed} --markdown"
    tried = sum(finding.tried for finding in report.findings)
    lost = sum(len(finding.lost) for finding in report.findings)
    return (
        f"The {size} campaign of {date.today().isoformat()}: **{tried:,} tried, {lost:,} lost**, {report.seconds:,.0f} s; "
        f"`{command}`; ramet {ramet.__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"{platform.system()} on {os.cpu_count()} cores."
    )
