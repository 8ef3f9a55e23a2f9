"""`ramet study`: how a stream is learned best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.continual.recipe import LearnRecipe
from ramet.continual.study.plan import StudyPlan
from ramet.continual.study.space import SequenceSpace
from ramet.jobs.study.job import StudyJob
from ramet.jobs.verbs import run_verb
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.continual.streams.stream import Stream
    from ramet.execution import Executor
    from ramet.jobs.study.result import StudyResult

__all__ = ["SequenceSpace", "StudyJob", "StudyPlan", "study"]


def study(
    stream: str | Stream = "split-digits:5",
    *,
    plan: StudyPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> StudyResult:
    """Search how a stream of tasks is learned best: how much each task grows, where it is bound, in which order.

    Called again with the same arguments and the same ``out``, an interrupted run goes on and a finished one gives its
    result again.

    Args:
        stream: a name such as ``split-digits:5``, a ``.json`` file, or a ``Stream``.
        plan: what is searched and how; the sequences there are lie in its ``space``.
        recipe: how each task is trained.
        seed: what all randomness follows from.
        out: the run directory; a new one under ``runs/`` if none.
        executor: where trials run, or a number of worker processes. With more than one, a script needs the usual
            ``if __name__ == "__main__":``.
        device: where tensors are.
        **options: of a stream by name, see ``StreamOptions``.

    Raises:
        ConfigError: something cannot work, or ``out`` holds a run of other arguments.
        MissingExtraError: Optuna, or the driver of the storage, is not installed.
    """
    job = StudyJob(stream=stream, plan=plan or StudyPlan(), recipe=recipe or LearnRecipe(), seed=seed, device=device)
    return cast("StudyResult", run_verb(job, out, executor, options))
