"""What a comparison of given scores gives: every ranking against the truth, with intervals, and what follows."""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.jobs.rank.result import PairwiseStability, RankingQuality, TopFigures, TruthFigures
from ramet.jobs.result import Result


@dataclass(frozen=True, kw_only=True)
class ScoresStability:
    """How alike the rankings are; none for a single one."""

    instances: PairwiseStability | None


@dataclass(frozen=True, kw_only=True)
class ScoresResult(Result):
    """How far given rankings can be trusted. What needs a truth is none without one.

    Attributes:
        children: their names.
        correlation: of each ranking by its name.
        top: the true rank of the best of the first n picks, by ranking and ``top_n``.
        pruning: the share of the truly best quarter that survives pruning the worst half by a ranking.
        top_weighted: by ranking, what it is worth where one chooses.
        left_out: how many children the truth has besides.
        recommendation: what follows, each sentence with the measurement behind it.
    """

    children: list[str]
    stability: ScoresStability
    recommendation: list[str]
    truth_source: str | None
    truth_unit: str = "share"
    left_out: int = 0
    truth: TruthFigures | None = None
    smallest_first: dict[str, bool] = field(default_factory=dict)
    correlation: dict[str, RankingQuality] = field(default_factory=dict)
    top: dict[str, dict[str, float]] = field(default_factory=dict)
    pruning: dict[str, float] = field(default_factory=dict)
    top_weighted: dict[str, TopFigures] = field(default_factory=dict)

    @property
    def truth_is_share(self) -> bool:
        """Whether the truth is a share, written as a percentage."""
        return self.truth_unit != "score"

    def words(self) -> list[str]:
        """The recommendation, and where the report is."""
        lines = [f"- {line}" for line in self.recommendation]
        if self.left_out:
            lines.append(f"- The truth has {self.left_out} children more, which are left out.")
        return lines if self.report is None else [*lines, "", f"Report: {self.report}"]
