"""Where a reproduction works: its folders, its executor, its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.data import DataSet, load, on_device
from ramet.execution import Executor
from ramet.jobs.rank import RankJob
from ramet.jobs.runner import start
from ramet_papers.recorded import digest_of


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where a reproduction works."""

    runs: Path  # the folder of the runs; a run that is there already is not done again
    results: Path  # where the truth and the claims are kept
    executor: Executor  # where trainings run
    data_dir: Path | None = None  # where named data sets are
    seed: int = 0  # the seed of all runs
    device: str = "cpu"  # where tensors are

    @property
    def data_folder(self) -> str | None:
        """Where named data sets are, as a job takes it."""
        return None if self.data_dir is None else str(self.data_dir)

    def load(self, data: str, options: Any) -> DataSet:
        """A data set by its name and the options of ``ramet.data.load``, on the device."""
        return on_device(load(data, **options, data_dir=self.data_dir, seed=self.seed), self.device)

    def run_of(self, name: str, job: RankJob) -> Path:
        """The run directory of a diagnosis."""
        asked = {key: value for key, value in job.to_json().items() if key not in ("truth_cache", "device")}
        return self.runs / f"{name}-{digest_of(asked)}"

    def diagnose(self, name: str, job: RankJob) -> dict[str, Any]:
        """The result of a diagnosis, which is run, gone on with, or only read, whichever is needed.

        The run's folder is named by what is asked, so that a changed preset never touches the run of another. Where the
        truth is cached and which device is used are not part of the question.
        """
        result = start(job, self.run_of(name, job), self.executor, go_on=True)
        assert result is not None
        return result.to_json()
