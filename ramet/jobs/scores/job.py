"""`ramet rank --scores FILE`: scores that a user has already, against a truth; nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from ramet.errors import ConfigError, DataError
from ramet.jobs.job import Job, Session, new_folder
from ramet.registry import anchored
from ramet.runs.encoding import Json

if TYPE_CHECKING:
    from ramet.jobs.scores.result import ScoresResult
    from ramet.ranking.metrics import Floats
    from ramet.ranking.tables import ScoreTable


@dataclass(frozen=True)
class ScoresSetup:
    """The tables that are compared, columns by ``names``: rankings of [rows, children] each, and the truth."""

    names: list[str]
    rankings: dict[str, Floats]
    truth: ScoreTable | None
    left_out: int


@dataclass(frozen=True, kw_only=True)
class ScoresJob(Job[ScoresSetup]):
    """Say how far rankings that are there already can be trusted.

    Args:
        scores: FILE.csv or FILE.npz with a column arch, and a column a ranking; FILE:COLUMN,... for some of them. Those
            called parameters and flops are the trivial ones, which the others have to beat.
        truth: FILE[:COLUMN] with the true scores of the same children; none to look at stability alone.
    """

    kind = "scores"
    gives = "ramet.jobs.scores.result:ScoresResult"
    sources = ()

    scores: str = ""
    truth: str | None = None

    def anchored(self) -> Self:
        """Files named from the root."""
        truth = None if self.truth is None else anchored(self.truth)
        return replace(self, scores=anchored(self.scores), truth=truth)

    def code(self) -> list[str]:
        """None: a table runs nothing."""
        return []

    def build(self, *, trust: bool = False) -> ScoresSetup:
        """The tables, read and matched."""
        from ramet.ranking.tables import read_columns, read_scores

        if not self.scores:
            raise ConfigError("scores must name a table, FILE.csv or FILE.npz, but got nothing.")
        columns = read_columns(self.scores)
        first = next(iter(columns.values()))
        names, truth = list(first.names), None
        if len(names) < 2:
            raise DataError(f"a ranking needs at least 2 children, but {first.file} has {len(names)}.")
        if self.truth is not None:
            truth = read_scores(self.truth)
            known = {name: place for place, name in enumerate(truth.names)}
            for name, row in zip(names, first.rows, strict=True):
                if name not in known:
                    raise DataError(
                        f"{truth.file} must score every ranked child, but lacks {name} (row {row} of {first.file})."
                    )
            chosen = [known[name] for name in names]
            deviation = None if truth.deviation is None else truth.deviation[chosen]
            left_out = len(truth.names) - len(names)
            truth = replace(truth, names=names, scores=truth.scores[:, chosen], deviation=deviation)
            if (truth.scores.mean(axis=0) == truth.scores.mean(axis=0)[0]).all():
                raise DataError(f"{truth.file} must order the children, but scores all {len(names)} the same.")
        rankings = {_TRIVIAL.get(name.lower(), name): table.scores for name, table in columns.items()}
        if all((values == values[:, :1]).all() for values in rankings.values()):
            raise DataError(f"{first.file} must tell children apart, but scores all {len(names)} the same.")
        return ScoresSetup(names, rankings, truth, 0 if truth is None else left_out)

    def setting(self, setup: ScoresSetup) -> Json:
        """What the tables hold, by content."""
        import hashlib

        digest = hashlib.sha256(repr(setup.names).encode())
        for name, values in setup.rankings.items():
            digest.update(name.encode() + values.tobytes())
        digest.update(b"" if setup.truth is None else setup.truth.scores.tobytes())
        return {"tables": digest.hexdigest()[:16]}

    def work(self, setup: ScoresSetup, session: Session) -> Json:
        """The figures."""
        from ramet.ranking.compared import compare_scores

        truth = setup.truth
        result = compare_scores(
            setup.rankings,
            None if truth is None else truth.scores,
            names=setup.names,
            deviation=None if truth is None else truth.deviation,
            num_seeds=1 if truth is None else truth.num_seeds,
            seed=self.seed,
        )
        about = {"truth_source": None if truth is None else truth.source, "left_out": setup.left_out}
        return result | about | {"truth_unit": "share" if truth is None else truth.unit}


_TRIVIAL = {"params": "parameters", "parameters": "parameters", "num_params": "parameters"}
_TRIVIAL |= {"flops": "flops", "macs": "flops", "multiply-adds": "flops", "madds": "flops"}


def rank_scores(
    scores: str | Path, truth: str | Path | None = None, *, seed: int = 0, out: str | Path | None = None
) -> ScoresResult:
    """Say how far rankings that are there already can be trusted: ``ramet rank --scores FILE --truth FILE``.

    Args:
        scores: a table, ``FILE.csv[:COLUMN,...]``; see ``ScoresJob``. ``ramet.ranking.compare_scores`` takes arrays.
        truth: a table of the truth, ``FILE.csv[:COLUMN]``; none to look at stability alone.
        seed: of the intervals' resamples.
        out: the run directory; a new one under ``runs/`` if none.

    Raises:
        ConfigError: a table cannot be read, or does not fit the other; the row is named.
    """
    from ramet.execution import make_executor
    from ramet.jobs.runner import start

    job = ScoresJob(scores=str(scores), truth=None if truth is None else str(truth), seed=seed)
    place = new_folder(job.kind) if out is None else Path(out)
    return cast("ScoresResult", start(job.anchored(), place, make_executor(1), go_on=True))
