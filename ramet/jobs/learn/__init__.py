"""`ramet learn`: task after task in one network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.jobs.learn.job import LearnJob
from ramet.jobs.verbs import run_verb
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.continual.streams.stream import Stream
    from ramet.execution import Executor
    from ramet.jobs.learn.result import LearnResult

__all__ = ["LearnJob", "LearnPlan", "LearnRecipe", "learn"]


def learn(
    stream: str | Stream | Sequence[Stream] = "split-digits:5",
    *,
    plan: LearnPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> LearnResult:
    """Learn a stream of tasks by several methods, and say what was forgotten, what was gained and what it cost.

    Called again with the same arguments and the same ``out``, an interrupted run goes on and a finished one gives its
    result again.

    Args:
        stream: a name such as ``split-digits:5``, a ``.json`` file, a ``Stream``, which every seed learns, or a
            ``Stream`` for each seed.
        plan: which methods learn it, with which network and how many seeds.
        recipe: how each task is trained.
        seed: what all randomness follows from.
        out: the run directory; a new one under ``runs/`` if none.
        executor: where methods and seeds run, or a number of worker processes. With more than one, a script needs the
            usual ``if __name__ == "__main__":``.
        device: where tensors are.
        **options: of a stream by name, see ``StreamOptions``.

    Raises:
        ConfigError: something cannot work, or ``out`` holds a run of other arguments.

    Example:
        >>> import tempfile
        >>> plan = LearnPlan(methods="naive", network="mlp:8")
        >>> result = learn("split-digits:2", plan=plan, recipe=LearnRecipe(epochs=1), out=tempfile.mkdtemp())
        >>> list(result.methods)
        ['individual', 'naive']
    """
    job = LearnJob(
        stream=tuple(stream) if isinstance(stream, (list, tuple)) else cast("str | Stream", stream),
        plan=plan or LearnPlan(),
        recipe=recipe or LearnRecipe(),
        seed=seed,
        device=device,
    )
    return cast("LearnResult", run_verb(job, out, executor, options))
