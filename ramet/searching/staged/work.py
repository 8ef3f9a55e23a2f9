"""Work that is done once: its results and decisions are in a run's records, and are read from there after a kill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ramet.execution import Executor, WorkItem
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Run
from ramet.runs.encoding import Json, plain
from ramet.searching.staged.budget import SearchBudget
from ramet.spaces import Arch


class RecordedWork:
    """The tasks of a staged search, each paid from its budget.

    Args:
        setup: what every task is given.
        run: where results go.
        executor: where tasks run.
    """

    def __init__(self, setup: SupernetSetup, run: Run, executor: Executor) -> None:
        self._setup, self._run, self._executor = setup, run, executor

    def decide(self, key: str, make: Callable[[], Json]) -> Json:
        """A decision that is in the records, or is made now."""
        if key not in self._run.records:
            self._run.records.append(key, **plain(make()))
        return self._run.records[key]

    def results(
        self,
        tasks: Sequence[WorkItem],
        budget: SearchBudget,
        stage: str,
        archs: Sequence[Arch] | None = None,
    ) -> list[dict[str, Any]]:
        """The results of tasks, in order; those that the records have are not done again, but paid again.

        ``archs`` are those that the tasks train, one each; without them, nothing is trained.
        """
        missing = [task for task in tasks if task.key not in self._run.records]
        label = f"stage {stage}, {budget.text(max(budget.left, 0.0))} of the budget to spend"
        done = self._executor.run(missing, self._setup, label=label, on_failure=self._run.record_failure)
        for task, result in done:
            self._run.records.append(task.key, **result)
        results = [self._run.records[task.key] for task in tasks]
        for number, result in enumerate(results):
            budget.charge(stage, result, None if archs is None else archs[number])
        return results
