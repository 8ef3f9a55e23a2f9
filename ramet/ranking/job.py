"""`ramet rank` as a function: build what the options name, run the diagnosis, write the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ramet.data import DataSet, Split, load
from ramet.errors import ConfigError, DataError, RametError
from ramet.execution import Executor
from ramet.ranking.bench import Bench
from ramet.ranking.diagnosis import Diagnosis
from ramet.ranking.plan import Plan
from ramet.reports.rank import write_rank_report
from ramet.runs import Run, remove_run
from ramet.spaces import Space, make_space
from ramet.training import Settings

KIND = "rank"


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

    def build(self) -> Bench:
        """The space, the data and the settings; refuses whatever cannot work, before anything is written."""
        space = make_space(self.space, **self.space_options)
        self.plan.check(space)
        data = on_device(load(self.data, **self.data_options), self.device)
        bench = Bench(space, data, self.settings)
        _try_one_child(bench, space)
        return bench


def rank(job: RankJob, out: Path, executor: Executor, *, overwrite: bool = False) -> dict[str, Any]:
    """Diagnose a supernet in a new run directory; gives the result, and leaves ``report.html`` beside it."""
    bench = job.build()
    if overwrite:
        remove_run(out)
    with Run.create(out, KIND, job.to_json()) as run:
        return _diagnose(job, bench, run, executor)


def resume(path: Path, executor: Executor) -> dict[str, Any]:
    """Go on with a diagnosis that was interrupted; one that is finished gives its result again."""
    with Run.open(path) as run:
        job = RankJob.from_json(run.config)
        return _diagnose(job, job.build(), run, executor)


def _diagnose(job: RankJob, bench: Bench, run: Run, executor: Executor) -> dict[str, Any]:
    bench = replace(bench, folder=run.path / "checkpoints")
    result = Diagnosis(bench, job.plan, run, executor, Path(job.truth_cache))()
    write_rank_report(run.path)
    return result


def on_device(data: DataSet, device: str) -> DataSet:
    """The data set with its tensors on a device."""

    def moved(split: Split) -> Split:
        return Split(split.x.to(device), split.y.to(device))

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device must be one that torch can use here, but {device!r} is not: {_first(error)}") from None
    if device == "cpu":
        return data
    return replace(data, train=moved(data.train), validation=moved(data.validation), test=moved(data.test))


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0]


def _try_one_child(bench: Bench, space: Space) -> None:
    """Run one child on two samples, so that a space and data that do not fit are refused before anything is written."""
    network = bench.new_supernet(0)
    try:
        with torch.no_grad():
            logits = network.eval()(bench.data.train.x[:2], space[0])
    except RametError:
        raise
    except Exception as error:
        raise DataError(f"the space must run on the data, but does not: {type(error).__name__}: {_first(error)}.") from None
    if tuple(logits.shape) != (2, bench.data.num_classes):
        raise DataError(
            f"a child must give a logit for each of the {bench.data.num_classes} classes, "
            f"but gives the shape {tuple(logits.shape)} for two samples."
        )
