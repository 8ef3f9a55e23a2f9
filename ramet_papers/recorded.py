"""Trainings whose results are kept in a run: done once, gone on with after a kill, and only read the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from ramet.execution import Executor, WorkItem
from ramet.runs import Run, read_config, remove_run
from ramet.runs.encoding import Json, plain


def digest_of(asked: Json) -> str:
    """A short name for what is asked, so that a run's folder can be named by it and no run is ever replaced.

    >>> digest_of({"seed": 0, "epochs": 1}) == digest_of({"epochs": 1, "seed": 0})
    True
    """
    return hashlib.sha256(json.dumps(plain(asked), sort_keys=True).encode()).hexdigest()[:8]


def open_recorded(path: Path, kind: str, config: Json) -> Run:
    """The run at a path, gone on with if it is there; one that answered another question is replaced.

    Args:
        path: the run's folder. Named by ``digest_of`` the configuration, it never holds another question's answers.
        kind: of the run.
        config: all that must be the same for a recorded result to count, besides the tasks' keys.
    """
    wanted: Json = plain(config)
    if (path / "config.json").exists():
        if read_config(path)["config"] == wanted:
            return Run.open(path)
        remove_run(path)
    return Run.create(path, kind, wanted)


def finish_tasks(
    run: Run, executor: Executor, tasks: Sequence[WorkItem], context: object, label: str = "training"
) -> dict[str, Json]:
    """The result of every task by its key; those that the run has recorded are not run again.

    Args:
        run: where results are kept. A task's key must say everything in which tasks of this run differ.
        executor: where the others run.
        tasks: whose functions give JSON objects.
        context: what every task is given first.
        label: what the progress bar says.
    """
    missing = [task for task in tasks if task.key not in run.records]
    for task, result in executor.run(missing, context, label=label, on_failure=run.record_failure):
        run.records.append(task.key, **result)
    return {task.key: run.records[task.key] for task in tasks}
