"""Trainings whose results are kept in a run: done once, gone on with after a kill, and only read the next time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.execution import Task
from ramet.papers.desk import Desk
from ramet.papers.recorded import Json, finish_tasks, open_recorded
from ramet.ranking.bench import Bench
from ramet.runs import read_config, read_records
from ramet.runs.encoding import plain

__all__ = ["Json", "Trainings"]

KIND = "reproduction"


@dataclass(frozen=True)
class Trainings:
    """The trainings of one experiment, on one bench and in one run directory.

    Args:
        desk: where the reproduction works.
        name: the folder of the run.
        bench: the space, the data and the settings; the context of every task.
        options: what else the results depend on, besides the bench and the tasks' own arguments.
        keeps_checkpoints: whether tasks keep checkpoints of their own; not worth it for trainings of seconds.
    """

    desk: Desk
    name: str
    bench: Bench
    options: Json
    keeps_checkpoints: bool = False

    @property
    def config(self) -> Json:
        """All that must be the same for a recorded result to count."""
        config: Json = plain({**self.bench.describe(), "options": self.options})
        return config

    def finish(self, tasks: Sequence[Task]) -> dict[str, Json]:
        """The result of every task by its key; only those that are not recorded yet are run.

        A task's key must say everything in which tasks of this run differ.
        """
        path = self.desk.runs / self.name
        folder = path / "checkpoints" if self.keeps_checkpoints else None
        bench = Bench(self.bench.space, self.bench.data, self.bench.settings, folder)
        with open_recorded(path, KIND, self.config) as run:
            return finish_tasks(run, self.desk.executor, tasks, bench)

    def known(self, tasks: Sequence[Task]) -> dict[str, Json] | None:
        """The results of the tasks if all are recorded already, else none; trains and writes nothing."""
        path = self.desk.runs / self.name
        if not (path / "config.json").exists() or read_config(path)["config"] != self.config:
            return None
        records = {record["key"]: record for record in read_records(path)}
        if not all(task.key in records for task in tasks):
            return None
        return {task.key: records[task.key] for task in tasks}
