"""Where a reproduction works: its folders, its executor, and what it hands back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ramet.execution import Executor
from ramet.jobs.rank import RankJob
from ramet.jobs.runner import start
from ramet.reports import Table
from ramet_papers.claims import Claim, write_claims
from ramet_papers.claims_text import ANSWERS
from ramet_papers.recorded import digest_of


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where a reproduction works.

    Args:
        runs: the folder of the runs; a run that is there already is not done again.
        results: where the truth and the claims are kept.
        executor: where trainings run.
        data_dir: where named data sets are.
        seed: the seed of all runs.
        device: where tensors are.
    """

    runs: Path
    results: Path
    executor: Executor
    data_dir: Path | None = None
    seed: int = 0
    device: str = "cpu"

    def run_of(self, name: str, job: RankJob) -> Path:
        """The run directory of a diagnosis."""
        asked = {key: value for key, value in job.to_json().items() if key not in ("truth_cache", "device")}
        return self.runs / f"{name}-{digest_of(asked)}"

    def diagnose(self, name: str, job: RankJob) -> dict[str, Any]:
        """The result of a diagnosis, which is run, gone on with, or only read, whichever is needed.

        The run's folder is named by what is asked, so that a changed preset never touches the run of another. Where the
        truth is cached and which device is used are not part of the question.
        """
        path = self.run_of(name, job)
        result = start(job, path, self.executor, go_on=True)
        assert result is not None
        return result.to_json()


@dataclass(frozen=True)
class Outcome:
    """What a reproduction gives: the paper's figures beside ours, and the answers to its claims."""

    title: str
    tables: list[Table]
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def kept(self, results: Path) -> Outcome:
        """This outcome, its claims written down."""
        if self.claims:
            write_claims(results, self.claims)
        return self

    def to_text(self) -> str:
        """For a terminal."""
        lines = [self.title, ""]
        for table in self.tables:
            lines += [table.to_text(), ""]
        for claim in self.claims:
            lines.append(f"{claim.id} {ANSWERS[claim.holds]}: {claim.claim} Paper: {claim.paper}. Ours: {claim.ours}.")
            lines += [f"   {claim.note}"] if claim.note else []
        return "\n".join([*lines, *self.notes])

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "title": self.title,
            "tables": [{"title": table.title, "rows": table.to_json()} for table in self.tables],
            "claims": [asdict(claim) for claim in self.claims],
            "notes": self.notes,
        }
