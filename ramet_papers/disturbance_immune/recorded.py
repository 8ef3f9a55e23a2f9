"""Trainings whose results are kept in a run: done once, gone on with after a kill, and only read the next time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.execution import WorkItem
from ramet.ranking.setup import SupernetSetup
from ramet.runs import read_config, read_records
from ramet.runs.encoding import Json, plain
from ramet_papers.recorded import finish_tasks, open_recorded
from ramet_papers.workspace import Workspace

__all__ = ["Json", "Trainings"]

KIND = "reproduction"


@dataclass(frozen=True)
class Trainings:
    """The trainings of one experiment, on one setup and in one run directory.

    Args:
        workspace: where the reproduction works.
        name: the folder of the run.
        setup: the space, the data and the settings; the context of every task.
        options: what else the results depend on, besides the setup and the tasks' own arguments.
        keeps_checkpoints: whether tasks keep checkpoints of their own; not worth it for trainings of seconds.
    """

    workspace: Workspace
    name: str
    setup: SupernetSetup
    options: Json
    keeps_checkpoints: bool = False

    @property
    def config(self) -> Json:
        """All that must be the same for a recorded result to count."""
        config: Json = plain({**self.setup.describe(), "options": self.options})
        return config

    def finish(self, tasks: Sequence[WorkItem]) -> dict[str, Json]:
        """The result of every task by its key; only those that are not recorded yet are run.

        A task's key must say everything in which tasks of this run differ.
        """
        path = self.workspace.runs / self.name
        folder = path / "checkpoints" if self.keeps_checkpoints else None
        setup = SupernetSetup(self.setup.space, self.setup.data, self.setup.settings, folder)
        with open_recorded(path, KIND, self.config) as run:
            return finish_tasks(run, self.workspace.executor, tasks, setup)

    def known(self, tasks: Sequence[WorkItem]) -> dict[str, Json] | None:
        """The results of the tasks if all are recorded already, else none; trains and writes nothing."""
        path = self.workspace.runs / self.name
        if not (path / "config.json").exists() or read_config(path)["config"] != self.config:
            return None
        records = {record["key"]: record for record in read_records(path)}
        if not all(task.key in records for task in tasks):
            return None
        return {task.key: records[task.key] for task in tasks}
