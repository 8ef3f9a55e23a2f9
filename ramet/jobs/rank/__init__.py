"""`ramet rank`: how far a supernet's ranking can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.jobs.rank.job import RankJob, RankRecipe
from ramet.jobs.verbs import run_verb
from ramet.ranking.plan import Plan
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.data import DataSet
    from ramet.execution import Executor
    from ramet.jobs.rank.result import RankResult
    from ramet.spaces import Space

__all__ = ["RankJob", "RankRecipe", "rank"]


def rank(
    space: str | Space = "cells64",
    data: str | DataSet = "digits",
    *,
    plan: Plan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    truth_cache: str | Path | None = None,
    **options: Any,
) -> RankResult:
    """Say how far a supernet's ranking of its children can be trusted, and what would make it better.

    Called again with the same arguments and the same ``out``, an interrupted run goes on and a finished one gives its
    result again.

    Args:
        space: a spec such as ``cells64:channels=8``, ``FILE.py:function``, or a space of one's own.
        data: a name, a path, or a ``DataSet`` (``ramet.data.load`` makes one of arrays and torch data sets).
        plan: what is done.
        recipe: how supernets and children alone are trained.
        seed: what all randomness follows from.
        out: the run directory; a new one under ``runs/`` if none.
        executor: where trainings run, or a number of worker processes. With more than one, a script needs the usual
            ``if __name__ == "__main__":``.
        device: where tensors are.
        truth_cache: the folder in which the truth is kept across runs; the user's cache if none.
        **options: of the data set, see ``DataOptions``.

    Raises:
        ConfigError: something cannot work, or ``out`` holds a run of other arguments.
    """
    job = RankJob(
        space=space,
        data=data,
        plan=plan or Plan(),
        recipe=recipe or RankRecipe(),
        seed=seed,
        device=device,
        truth_cache=None if truth_cache is None else str(Path(truth_cache).absolute()),
    )
    return cast("RankResult", run_verb(job, out, executor, options))
