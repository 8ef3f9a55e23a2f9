"""What a campaign gives: what was tried, how often, and what was lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Wants = Callable[[str], bool]
"""Whether a line that begins so, or is called so, is wanted."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the table.

    Args:
        what: what was tried.
        tried: how often.
        lost: one sentence for each time that something was lost, doubled, left behind or not said in one line.
        detail: figures beside it.
        skipped: why it was not tried at all.
    """

    what: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    detail: str = ""
    skipped: str = ""

    def cells(self) -> list[str]:
        if self.skipped:
            return [self.what, "-", "-", f"not tried: {self.skipped}"]
        return [self.what, f"{self.tried:,}", f"{len(self.lost):,}", self.detail]


@dataclass(frozen=True, kw_only=True)
class Report:
    """All lines of one campaign."""

    name: str
    findings: list[Finding]
    seconds: float
    is_long: bool
    seed: int
    only: str = ""


HEADINGS = ["what was tried", "times", "lost", "figures"]


def as_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a Markdown table."""
    rows = [HEADINGS, ["---", "---:", "---:", "---"], *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
