"""`ramet search`: an architecture, found on shared weights that stay true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.jobs.search.job import SearchDataOptions, SearchJob, SearchRecipe
from ramet.jobs.verbs import run_verb
from ramet.searching.plan import SearchPlan
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.data import DataSet
    from ramet.execution import Executor
    from ramet.jobs.search.result import SearchResult
    from ramet.spaces import Space

__all__ = ["SearchDataOptions", "SearchJob", "SearchRecipe", "search"]


def search(
    space: str | Space = "cells64",
    data: str | DataSet = "digits",
    *,
    plan: SearchPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> SearchResult:
    """Find the best architecture of a space on one set of shared weights, and train it alone.

    Called again with the same arguments and the same ``out``, an interrupted run goes on and a finished one gives its
    result again.

    Args:
        space: a spec such as ``cells64:channels=8``, ``FILE.py:function``, or a space of one's own.
        data: a name, a path, or a ``DataSet`` (``ramet.data.load`` makes one of arrays and torch data sets).
        plan: what is done.
        recipe: how the shared weights and the architectures found are trained; its epochs are the plan's.
        seed: what all randomness follows from.
        out: the run directory; a new one under ``runs/`` if none.
        executor: where final trainings run, or a number of worker processes. With more than one, a script needs the
            usual ``if __name__ == "__main__":``.
        device: where tensors are.
        **options: of the data set, see ``TextOptions``.

    Raises:
        ConfigError: something cannot work, or ``out`` holds a run of other arguments.
    """
    job = SearchJob(
        space=space,
        data=data,
        plan=plan or SearchPlan(),
        recipe=recipe or SearchRecipe(),
        seed=seed,
        device=device,
    )
    return cast("SearchResult", run_verb(job, out, executor, options))
