"""The numbers of a run for Weights & Biases, written to the run's directory and sent nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ramet.errors import MissingExtraError
from ramet.runs.atomic import writing
from ramet.runs.loggers.base import RunLogger

if TYPE_CHECKING:
    from ramet.runs.directory import Run


class WandbLogger(RunLogger):
    """An offline run of Weights & Biases in ``wandb/`` of the run directory.

    ``wandb sync RUN/wandb/offline-run-*`` sends it. Until then nothing goes over the network, and neither
    code nor what the machine is called is written down.
    """

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("wandb", "wandb") from error
        self._wandb: Any = wandb
        self._run: Any = None
        self._groups: set[str] = set()

    def begin(self, run: Run) -> None:
        """A new offline run; an earlier one of the same directory goes."""
        with writing(run.path / "wandb"):
            shutil.rmtree(run.path / "wandb", ignore_errors=True)
        private = {"x_disable_meta": True, "x_disable_stats": True, "x_disable_machine_info": True, "disable_git": True}
        settings = self._wandb.Settings(
            **private, console="off", silent=True, save_code=False, host="", program="ramet"
        )
        self._run = self._wandb.init(
            mode="offline", dir=str(run.path), project="ramet", name=run.path.name, job_type=run.kind, settings=settings
        )

    def log(self, group: str, step: int, scalars: Mapping[str, float]) -> None:
        """Each group has a step of its own: those of W&B only rise, and ours begin anew with each part of a run."""
        if group not in self._groups:
            self._groups.add(group)
            self._run.define_metric(f"{group}/step", hidden=True)
            self._run.define_metric(f"{group}/*", step_metric=f"{group}/step")
        self._run.log({f"{group}/step": step} | {f"{group}/{name}": value for name, value in scalars.items()})

    def close(self) -> None:
        """Write what is left."""
        if self._run is not None:
            self._run.finish()
            self._run = None
