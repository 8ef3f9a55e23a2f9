"""`ramet study` as a function: search how a stream is learned best, and write the front, its networks and a report."""

from __future__ import annotations

import os
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ramet.continual.loop import DEFAULT_SETTINGS
from ramet.continual.methods.bind_and_grow.method import BindAndGrow
from ramet.continual.methods.making import make_method
from ramet.continual.networks.making import make_skeleton
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.streams.makers import make_stream
from ramet.continual.streams.stream import Stream
from ramet.continual.study.address import is_masked, masked
from ramet.continual.study.result import SearchResult, network_file
from ramet.continual.study.search import SequenceSearch, population_for
from ramet.continual.study.sequences import SequenceBench, SequenceSpace
from ramet.data import on_device
from ramet.errors import ConfigError
from ramet.execution import Executor
from ramet.reports.study import write_study_report
from ramet.runs import Run, ScalarMirror, remove_run, require_tensorboard
from ramet.training import Settings

KIND = "study"
VARIABLE = "RAMET_STORAGE"
"""The environment variable that holds a storage's address: with its password, which no file of a run holds."""


@dataclass(frozen=True, kw_only=True)
class StudyJob:
    """Everything that a study depends on; its JSON, with the password masked, is a run's ``config.json``.

    Args:
        stream: The name of a stream, or a ``.json`` file.
        stream_options: Arguments of ``make_stream``, but the seed.
        method: ``bind-and-grow``, with options after a colon if wanted.
        network: The name of a skeleton.
        batch_norm: Whether its layers have batch norm.
        settings: The numbers of each training.
        search: How sequences are searched.
        seed: What all randomness follows from.
        device: Where tensors are.
    """

    stream: str = "split-digits:5"
    stream_options: dict[str, Any] = field(default_factory=dict)
    method: str = "bind-and-grow"
    network: str = "mlp"
    batch_norm: bool = False
    settings: Settings = DEFAULT_SETTINGS
    search: SequenceSearch = field(default_factory=SequenceSearch)
    seed: int = 0
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values, without the password of its storage."""
        values = asdict(self)
        values["search"]["storage"] = masked(self.search.storage)
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> StudyJob:
        """The job of a run's ``config.json``; an address whose password was masked comes from ``RAMET_STORAGE``.

        Raises:
            ConfigError: The values describe no study, or the password is missing.
        """
        try:
            search = dict(values["search"])
            if is_masked(search["storage"]):
                search["storage"] = _from_environment(search["storage"])
            search["space"] = SequenceSpace(**search["space"])
            return cls(
                **{**values, "settings": Settings(**values["settings"]), "search": SequenceSearch(**search)},
            )
        except (KeyError, TypeError) as error:
            raise ConfigError(f"config.json must describe a study, but does not: {error}.") from None

    def build(self) -> StudySetup:
        """The stream and the network; refuses whatever cannot work, before anything is written."""
        method = make_method(self.method)
        if not isinstance(method, BindAndGrow):
            raise ConfigError(f"the method of a study must be bind-and-grow, but got {self.method!r}.")
        for name in ("delta", "bindings"):
            if f"{name}=" in self.method:
                raise ConfigError(f"{name} is what a study searches, so it cannot be given; got {self.method!r}.")
        options = {name: value for name, value in method.options.items() if name not in ("delta", "bindings")}
        try:
            stream = make_stream(self.stream, seed=self.seed, **self.stream_options)
        except TypeError as error:  # only a config.json that was edited by hand has options that are unknown
            raise ConfigError(f"stream_options must be options of a stream, but: {error}.") from None
        if len(stream) < 2:
            raise ConfigError(f"a stream must have at least 2 tasks to be studied, but {self.stream} has 1.")
        on_device(stream[0].dataset, self.device)  # refuses a device that is not there
        channels, height, width = stream.input_shape
        skeleton = make_skeleton(
            self.network, in_channels=channels, image_size=(height, width), batch_norm=self.batch_norm
        )
        for task in stream:
            skeleton.check(task.info)
        return StudySetup(self, stream, skeleton, options)


@dataclass(frozen=True)
class StudySetup:
    """What a job names, built.

    Args:
        job: What was asked.
        stream: The tasks.
        skeleton: The layers of each task's network.
        options: Options of the method.
    """

    job: StudyJob
    stream: Stream
    skeleton: Skeleton
    options: dict[str, Any]

    def check_storage(self) -> None:
        """Refuse a storage that does not work, or a study of another setting."""
        job = self.job
        setup = SequenceBench(self.stream, self.skeleton, job.settings, job.seed, Path(), self.options)
        job.search.check(setup)


def study_stream(
    job: StudyJob,
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
) -> dict[str, Any]:
    """Study a stream in a new run directory; gives the result, and leaves ``report.html`` and ``networks/`` there.

    Args:
        job: What is studied, and how.
        out: The run directory.
        executor: Where trials run.
        overwrite: Replace a run that is there already.
        tensorboard: Also write the numbers of the records as TensorBoard scalars.
        seconds_between_checkpoints: How much work of a training a kill may cost; it has no influence on the result.
    """
    if tensorboard:
        require_tensorboard()
    study = job.build()
    study.check_storage()
    if overwrite:
        remove_run(out)
    with Run.create(out, KIND, job.to_json()) as run:
        return _run(study, run, executor, tensorboard, seconds_between_checkpoints)


def resume(
    path: Path, executor: Executor, *, tensorboard: bool = False, seconds_between_checkpoints: float = 30.0
) -> dict[str, Any]:
    """Go on with a study that was interrupted; one that is finished gives its result again."""
    if tensorboard:
        require_tensorboard()
    with Run.open(path) as run:
        if "result" in run.records:  # the storage may be gone, and is not needed
            return _finished(run)
        study = StudyJob.from_json(run.config).build()
        study.check_storage()
        return _run(study, run, executor, tensorboard, seconds_between_checkpoints)


def _run(
    study: StudySetup, run: Run, executor: Executor, tensorboard: bool, seconds_between_checkpoints: float
) -> dict[str, Any]:
    job = study.job
    prints = study.stream.fingerprint()
    if "setting" in run.records and run.records["setting"]["stream"] != prints:
        raise ConfigError(f"a run goes on with what it began with, but the stream of {run.path} changed since.")
    run.records.append("setting", stream=prints, tasks=study.stream.names)
    with closing(ScalarMirror(run)) if tensorboard else nullcontext():
        found = job.search.run(
            study.stream,
            study.skeleton,
            job.settings,
            run,
            executor,
            seed=job.seed,
            options=study.options,
            device=job.device,
            seconds_between_checkpoints=seconds_between_checkpoints,
        )
        run.records.append("result", **_result(study, run, found))
        return _finished(run)


def _finished(run: Run) -> dict[str, Any]:
    write_study_report(run.path)
    return {key: value for key, value in run.records["result"].items() if key != "key"}


def _result(study: StudySetup, run: Run, found: SearchResult) -> dict[str, Any]:
    job, names = study.job, study.stream.names
    alone = [run.records[f"alone/{name}"] for name in names]
    front = []
    for row in found.front:
        key = f"test/{row['trial']}"
        tested: dict[str, Any] = run.records[key] if key in run.records else {}  # noqa: SIM401 - records have no get
        file = network_file(run.path, row["trial"])
        front.append(
            {
                **{name: row[name] for name in ("trial", "gain", "parameters", "sequence", "bound_to", "generation")},
                **{name: tested.get(name) for name in ("test_gain", "test_accuracy", "accuracies", "explanation")},
                "file": f"networks/{file.name}" if file.exists() else None,
            }
        )
    return {
        "stream": job.stream,
        "tasks": names,
        "num_trials": len(found.rows),
        "sampler": job.search.sampler,
        "population": population_for(job.search.num_trials) if job.search.sampler == "nsga2" else None,
        "space": asdict(job.search.space),
        "front": front,
        "trials": [
            {name: row[name] for name in ("trial", "gain", "parameters", "on_front", "sequence")} for row in found.rows
        ],
        "alone": {
            "parameters": sum(int(record["parameters"]) for record in alone),
            "validation_accuracy": sum(float(record["validation"]) for record in alone) / len(alone),
            "test_accuracy": sum(float(record["test"]) for record in alone) / len(alone),
        },
    }


def _from_environment(shown: str) -> str:
    given = os.environ.get(VARIABLE, "")
    if not given:
        raise ConfigError(
            f"the password of a storage is not kept, so the address of {shown} must be in the environment variable "
            f"{VARIABLE}, which is empty."
        )
    if masked(given) != shown:
        raise ConfigError(f"{VARIABLE} must hold the address of the run's storage, {shown}, but holds {masked(given)}.")
    return given
