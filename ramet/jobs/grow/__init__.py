"""`ramet grow`: a network that gets larger where it helps most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.growth.plan import GrowPlan
from ramet.jobs.grow.job import GrowJob, GrowRecipe, NetworkOptions
from ramet.jobs.verbs import run_verb
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from ramet.data import DataSet
    from ramet.execution import Executor
    from ramet.jobs.grow.result import GrowResult

__all__ = ["GrowJob", "GrowRecipe", "NetworkOptions", "grow"]


def grow(
    network: str | nn.Module = "vgg",
    data: str | DataSet = "digits",
    *,
    plan: GrowPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> GrowResult:
    """Grow a network where it helps most, until it is large or good enough, and compare ways to do so.

    Called again with the same arguments and the same ``out``, an interrupted run goes on and a finished one gives its
    result again. ``ramet.growth.grow`` is the loop alone: it gives the grown module, and writes nothing.

    Args:
        network: a spec such as ``vgg:width=8``, ``FILE.py:function``, or a module: it is left as it is, its copies
            start with its weights. ``ramet.growth.load_network(folder, network)`` gives the grown one.
        data: a name, a path, or a ``DataSet`` (``ramet.data.load`` makes one of arrays and torch data sets).
        plan: by which methods, how far, and when they end.
        recipe: how it is trained between two growths.
        seed: what all randomness follows from.
        out: the run directory; a new one under ``runs/`` if none.
        executor: where methods grow, or a number of worker processes. With more than one, a script needs the usual
            ``if __name__ == "__main__":``.
        device: where tensors are.
        **options: of the data set, see ``DataOptions``.

    Raises:
        ConfigError: something cannot work, or ``out`` holds a run of other arguments.
    """
    job = GrowJob(
        network=network,
        data=data,
        plan=plan or GrowPlan(),
        recipe=recipe or GrowRecipe(),
        seed=seed,
        device=device,
    )
    return cast("GrowResult", run_verb(job, out, executor, options))
