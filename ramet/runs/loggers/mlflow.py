"""The numbers of a run in MLflow: in the run's own directory, or where MLFLOW_TRACKING_URI says."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ramet.errors import MissingExtraError
from ramet.runs.atomic import writing
from ramet.runs.loggers.base import RunLogger

if TYPE_CHECKING:
    from ramet.runs.directory import Run


class MLflowLogger(RunLogger):
    """Metrics of MLflow, in the experiment ``ramet``: ``mlflow ui --backend-store-uri sqlite:///RUN/mlflow/mlflow.db``.

    With the environment variable ``MLFLOW_TRACKING_URI`` they go there instead, as a new run of MLflow each time a run
    is started or resumed. Only numbers and the kind of job are told, no user, host or path.
    """

    def __init__(self) -> None:
        try:
            from mlflow.entities import Metric
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise MissingExtraError("mlflow", "mlflow") from error
        self._metric, self._client_class = Metric, MlflowClient
        self._client: Any = None
        self._run_id = ""

    def begin(self, run: Run) -> None:
        """A new run of MLflow, in the place of the one in the run directory's own database."""
        address = os.environ.get("MLFLOW_TRACKING_URI")
        where: dict[str, str] = {}
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of the tables that it makes
        if not address:
            folder = (run.path / "mlflow").absolute()
            with writing(folder):
                folder.mkdir(exist_ok=True)
            address = f"sqlite:///{folder}/mlflow.db"
            where = {"artifact_location": f"{folder}/artifacts"}
        self._client = self._client_class(tracking_uri=address)
        known = self._client.get_experiment_by_name("ramet")
        experiment = self._client.create_experiment("ramet", **where) if known is None else known.experiment_id
        if where:  # a copy of this run alone: what an earlier one told comes again
            for earlier in self._client.search_runs([experiment]):
                self._client.delete_run(earlier.info.run_id)
        made = self._client.create_run(experiment, run_name=run.path.name, tags={"ramet.kind": run.kind})
        self._run_id = made.info.run_id

    def log(self, group: str, step: int, scalars: Mapping[str, float]) -> None:
        """All numbers of a record in one call."""
        now = int(1000 * time.time())
        metrics = [self._metric(f"{group}/{name}", value, now, step) for name, value in scalars.items()]
        self._client.log_batch(self._run_id, metrics=metrics)

    def close(self) -> None:
        """The run of MLflow is finished."""
        if self._run_id:
            self._client.set_terminated(self._run_id)
            self._run_id = ""
