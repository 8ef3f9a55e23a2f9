"""`ramet rank` as a function: build what the options name, run the diagnosis, write the report."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ramet.data import DataSet, load, on_device
from ramet.errors import ConfigError, RametError
from ramet.execution import Executor, make_executor
from ramet.ranking.diagnosis import Diagnosis
from ramet.ranking.plan import Plan
from ramet.ranking.rehearsal import rehearse
from ramet.ranking.setup import SupernetSetup
from ramet.reports.rank import write_rank_report
from ramet.runs import Run, ScalarMirror, remove_run, require_tensorboard
from ramet.runs.encoding import plain
from ramet.spaces import SPACES, Space, make_space
from ramet.training import Settings

KIND = "rank"
KIND_FROM_PYTHON = "rank-from-python"


@dataclass(frozen=True, kw_only=True)
class RankJob:
    """Everything that a diagnosis from the command line depends on; its JSON is a run's ``config.json``.

    Args:
        space: the name of a space, or ``FILE.py:function``.
        space_options: arguments of the space.
        data: the name or the path of a data set.
        data_options: arguments of ``ramet.data.load``.
        settings: the numbers of a training.
        plan: what is done.
        truth_cache: the folder in which the truth is kept across runs.
        device: where tensors are.
    """

    space: str = "cells64"
    space_options: dict[str, Any] = field(default_factory=dict)
    data: str = "digits"
    data_options: dict[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    plan: Plan = field(default_factory=Plan)
    truth_cache: str
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values."""
        return asdict(self) | {"plan": self.plan.describe()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RankJob:
        """The job of a run's ``config.json``."""
        try:
            plan = Plan(**{**values["plan"], "also": tuple(values["plan"]["also"])})
            return cls(**{**values, "settings": Settings(**values["settings"]), "plan": plan})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"config.json must describe a diagnosis, but does not: {error}.") from None

    def build(self) -> SupernetSetup:
        """The space, the data and the settings; refuses whatever cannot work, before anything is written."""
        try:
            data = on_device(load(self.data, **self.data_options), self.device)
        except TypeError as error:  # only a config.json that was edited by hand has options that load does not know
            raise ConfigError(f"data_options must be options of a data set, but: {error}.") from None
        fitting = {"in_channels": data.in_channels, "num_classes": data.num_classes} if self.space not in SPACES else {}
        setup = SupernetSetup(_made(self.space, fitting | self.space_options), data, self.settings)
        rehearse(setup, self.plan)
        if self.plan.truth == "train":
            _check_folder(Path(self.truth_cache))
        return setup


def rank(
    job: RankJob,
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
) -> dict[str, Any]:
    """Diagnose a supernet in a new run directory; gives the result, and leaves ``report.html`` beside it.

    Args:
        job: what is diagnosed, and how.
        out: the run directory.
        executor: where the trainings run.
        overwrite: replace a run that is there already.
        tensorboard: also write the numbers of the records as TensorBoard scalars.
        seconds_between_checkpoints: how much work of a training a kill may cost; it has no influence on the result.
    """
    if tensorboard:
        require_tensorboard()
    setup = replace(job.build(), seconds_between_checkpoints=seconds_between_checkpoints)
    if overwrite:
        remove_run(out)
    with Run.create(out, KIND, job.to_json()) as run:
        return _diagnose(job, setup, run, executor, tensorboard)


def resume(
    path: Path, executor: Executor, *, tensorboard: bool = False, seconds_between_checkpoints: float = 30.0
) -> dict[str, Any]:
    """Go on with a diagnosis that was interrupted; one that is finished gives its result again."""
    if tensorboard:
        require_tensorboard()
    with Run.open(path) as run:
        job = RankJob.from_json(run.config)
        setup = replace(job.build(), seconds_between_checkpoints=seconds_between_checkpoints)
        return _diagnose(job, setup, run, executor, tensorboard)


def diagnose(
    space: Space,
    data: DataSet,
    *,
    out: str | Path,
    settings: Settings | None = None,
    plan: Plan | None = None,
    truth_cache: str | Path | None = None,
    workers: int = 1,
) -> dict[str, Any]:
    """Diagnose a supernet of one's own from Python: any space, any data; leaves a run directory with a report.

    Called again with the same arguments and the same ``out``, an interrupted diagnosis goes on and a finished one gives
    its result again.

    Args:
        space: the architectures; ``ramet.spaces.ModuleSpace`` makes one from a module with choices inside.
        data: the splits; ``ramet.data.load`` makes one from arrays, files and torch data sets.
        out: the run directory.
        settings: the numbers of a training; the paper's if none.
        plan: what is done; three instances of full sharing if none.
        truth_cache: the folder in which the truth is kept across runs; inside ``out`` if none.
        workers: how many processes train at the same time. With more than one, a script that calls this needs the usual
            ``if __name__ == "__main__":``.

    Returns:
        Every figure with its interval, and the ``recommendation``; see docs/ranking.md.

    Raises:
        ConfigError: the plan does not fit the space, or ``out`` holds a run of other arguments.
    """
    plan = plan or Plan()
    setup = SupernetSetup(space, data, settings or Settings())
    rehearse(setup, plan)
    config = setup.describe() | {"plan": plan.describe()}
    path = Path(out)
    with Run.open(path) if (path / "config.json").exists() else Run.create(path, KIND_FROM_PYTHON, config) as run:
        if run.config != config:
            raise ConfigError(f"a run goes on with the arguments it began with, but {path} began with others.")
        setup = replace(setup, folder=run.path / "checkpoints")
        result = Diagnosis(setup, plan, run, make_executor(workers), Path(truth_cache or path / "truth"))()
        write_rank_report(run.path)
    return result


def _diagnose(job: RankJob, setup: SupernetSetup, run: Run, executor: Executor, tensorboard: bool) -> dict[str, Any]:
    _keep_setting(setup, run)
    with closing(ScalarMirror(run)) if tensorboard else nullcontext():
        setup = replace(setup, folder=run.path / "checkpoints")
        result = Diagnosis(setup, job.plan, run, executor, Path(job.truth_cache))()
        write_rank_report(run.path)
        return result


def _keep_setting(setup: SupernetSetup, run: Run) -> None:
    """Record what the space and the data are, and refuse to go on with others: a file may have changed meanwhile."""
    setting = plain(setup.describe())
    for name, value in setting.items():
        if "setting" in run.records and run.records["setting"][name] != value:
            raise ConfigError(f"a run goes on with what it began with, but the {name} of {run.path} changed since.")
    run.records.append("setting", **setting)


def _made(name: str, options: dict[str, Any]) -> Space:
    """The space of a name; whatever a user's own function raises is one line."""
    try:
        return make_space(name, **options)
    except RametError:
        raise
    except Exception as error:
        raise ConfigError(f"the function of {name} must run, but raises {type(error).__name__}: {error}.") from error


def _check_folder(folder: Path) -> None:
    """Refuse a truth cache that can never be a folder, before hours of training end there."""
    for path in (folder, *folder.parents):
        if path.exists():
            if not path.is_dir():
                raise ConfigError(f"truth_cache must be a folder, but {path} is a file.")
            return
