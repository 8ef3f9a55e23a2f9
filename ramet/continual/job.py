"""`ramet learn` as a function: build what the options name, learn the stream by each method, write the report."""

from __future__ import annotations

import re
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ramet.continual.analysis import analyse
from ramet.continual.joint import JointNetwork
from ramet.continual.loop import DEFAULT_SETTINGS, learn
from ramet.continual.method import check_classes
from ramet.continual.methods.making import make_method
from ramet.continual.networks.making import make_skeleton
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.streams.makers import make_stream
from ramet.continual.streams.stream import Stream, check_scenario
from ramet.data import on_device
from ramet.errors import ConfigError
from ramet.execution import Executor, WorkItem
from ramet.reports.learn import write_learn_report
from ramet.runs import Run, ScalarMirror, remove_run, require_tensorboard
from ramet.training import Settings

KIND = "learn"


@dataclass(frozen=True, kw_only=True)
class LearnJob:
    """Everything that a stream from the command line depends on; its JSON is a run's ``config.json``.

    Args:
        stream: The name of a stream, or a ``.json`` file.
        stream_options: Arguments of ``make_stream``, but the seed.
        methods: Methods by name, each with options after a colon if wanted. Individual networks are always among
            them, because the gain is over theirs.
        onto: A saved joint network that learns the stream as well, on top of what it knows.
        network: The name of a skeleton.
        batch_norm: Whether its layers have batch norm.
        head: ``own``, a head for each task, or ``shared``.
        settings: The numbers of each training.
        scenario: ``streaming`` or ``all``.
        seeds: How many seeds each method is run with, counted from ``seed``.
        seed: The first.
        device: Where tensors are.
    """

    stream: str = "split-digits:5"
    stream_options: dict[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ("firefly",)
    onto: str | None = None
    network: str = "mlp"
    batch_norm: bool = False
    head: str = "own"
    settings: Settings = DEFAULT_SETTINGS
    scenario: str = "streaming"
    seeds: int = 1
    seed: int = 0
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LearnJob:
        """The job of a run's ``config.json``."""
        try:
            return cls(**{**values, "settings": Settings(**values["settings"]), "methods": tuple(values["methods"])})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"config.json must describe a stream and its methods, but does not: {error}.") from None

    @property
    def all_methods(self) -> tuple[str, ...]:
        """The methods, with individual networks first."""
        return ("individual", *(name for name in self.methods if name != "individual"))

    def build(self) -> StreamSetup:
        """The streams and the network; refuses whatever cannot work, before anything is written."""
        check_scenario(self.scenario)
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, but got {self.seeds}.")
        if len(set(self.all_methods)) < len(self.all_methods):
            raise ConfigError(f"methods must differ, but got {', '.join(self.methods)}.")
        for spec in self.all_methods:
            if make_method(spec).needs_earlier and self.scenario != "all":
                raise ConfigError(f"the method {spec} needs the scenario all, but got {self.scenario!r}.")
        streams = []
        for seed in range(self.seed, self.seed + self.seeds):
            try:
                streams.append(make_stream(self.stream, seed=seed, **self.stream_options))
            except TypeError as error:  # only a config.json that was edited by hand has options that are unknown
                raise ConfigError(f"stream_options must be options of a stream, but: {error}.") from None
        on_device(streams[0][0].dataset, self.device)  # refuses a device that is not there
        channels, height, width = streams[0].input_shape
        skeleton = make_skeleton(
            self.network, in_channels=channels, image_size=(height, width), batch_norm=self.batch_norm, head=self.head
        )
        for spec in self.all_methods:
            make_method(spec).check_head(skeleton)
        if skeleton.shared_head:
            check_classes([task.info for task in streams[0]])
        if self.onto is not None:
            known = JointNetwork.load(self.onto).method
            known.skeleton.check(streams[0][0].info)
            for task in known.tasks:
                if task.name in streams[0].names:
                    raise ConfigError(f"a task is learned once, but {task.name!r} was learned already by {self.onto}.")
        return StreamSetup(self, streams, skeleton)


@dataclass(frozen=True)
class StreamSetup:
    """What every worker is given: the job, its streams (one for each seed) and its network.

    Args:
        job: What was asked.
        streams: For each seed.
        skeleton: The layers of each task's network.
        folder: The run directory.
        seconds_between_checkpoints: How much work of a training a kill may cost.
    """

    job: LearnJob
    streams: list[Stream]
    skeleton: Skeleton
    folder: Path | None = None
    seconds_between_checkpoints: float = 30.0


def learn_stream(
    job: LearnJob,
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
) -> dict[str, Any]:
    """Learn a stream in a new run directory; gives the result, and leaves ``report.html`` and ``networks/`` there.

    Args:
        job: What is learned, and how.
        out: The run directory.
        executor: Where methods and seeds run.
        overwrite: Replace a run that is there already.
        tensorboard: Also write the numbers of the records as TensorBoard scalars.
        seconds_between_checkpoints: How much work of a training a kill may cost; it has no influence on the result.
    """
    if tensorboard:
        require_tensorboard()
    setup = job.build()
    if overwrite:
        remove_run(out)
    with Run.create(out, KIND, job.to_json()) as run:
        return _run(setup, run, executor, tensorboard, seconds_between_checkpoints)


def resume(
    path: Path, executor: Executor, *, tensorboard: bool = False, seconds_between_checkpoints: float = 30.0
) -> dict[str, Any]:
    """Go on with a stream that was interrupted; one that is finished gives its result again."""
    if tensorboard:
        require_tensorboard()
    with Run.open(path) as run:
        setup = LearnJob.from_json(run.config).build()
        return _run(setup, run, executor, tensorboard, seconds_between_checkpoints)


def learn_one(setup: StreamSetup, method: str, place: int) -> dict[str, Any]:
    """One method with one seed: a task of the executor. Saves the joint network, gives the rows and the words."""
    job = setup.job
    assert setup.folder is not None
    name = f"{_file_name(method)}-{job.seed + place}"
    is_onto = method == ONTO
    assert not is_onto or job.onto is not None
    learned = learn(
        setup.streams[place],
        method="naive" if is_onto else method,
        onto=JointNetwork.load(str(job.onto)) if is_onto else None,
        network=setup.skeleton,
        settings=job.settings,
        seed=job.seed + place,
        scenario=job.scenario,
        folder=setup.folder / "checkpoints" / name,
        device=job.device,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
    )
    networks = setup.folder / "networks"
    networks.mkdir(exist_ok=True)
    learned.network.save(networks / f"{name}.safetensors")
    made = learned.network.method
    return {
        "rows": learned.rows,
        "explanation": made.explain(),
        "graph": made.graph(),
        "units": made.units(),
        "file": f"networks/{name}.safetensors",
    }


ONTO = "onto"


def _run(
    setup: StreamSetup, run: Run, executor: Executor, tensorboard: bool, seconds_between_checkpoints: float
) -> dict[str, Any]:
    job = setup.job
    _keep_setting(setup, run)
    setup = StreamSetup(job, setup.streams, setup.skeleton, run.path, seconds_between_checkpoints)
    with closing(ScalarMirror(run)) if tensorboard else nullcontext():
        specs = [*job.all_methods, *([ONTO] if job.onto is not None else [])]
        tasks = [
            WorkItem(f"{spec}/{job.seed + place}", learn_one, {"method": spec, "place": place})
            for spec in specs
            for place in range(job.seeds)
        ]
        left = [task for task in tasks if task.key not in run.records]
        for task, value in executor.run(left, setup, label="learning", on_failure=run.record_failure):
            run.records.append(task.key, method=task.arguments["method"], **value)
        if "result" not in run.records:
            run.records.append("result", **_result(setup, run, specs))
        write_learn_report(run.path)
        return {key: value for key, value in run.records["result"].items() if key != "key"}


def _result(setup: StreamSetup, run: Run, specs: list[str]) -> dict[str, Any]:
    job = setup.job
    seeds = range(job.seed, job.seed + job.seeds)
    rows = {spec: [run.records[f"{spec}/{seed}"]["rows"] for seed in seeds] for spec in specs}
    methods = analyse(rows)
    for spec, entry in methods.items():
        first = run.records[f"{spec}/{job.seed}"]
        entry |= {key: first.get(key) for key in ("explanation", "graph", "units", "file")}
        entry["forgets_nothing"] = spec != ONTO and make_method(spec).forgets_nothing
    validation = analyse(rows, split="validation")
    for spec, entry in methods.items():
        entry["validation_accuracy"] = validation[spec]["figures"]["average_accuracy"]
    return {"stream": job.stream, "tasks": setup.streams[0].names, "seeds": list(seeds), "methods": methods}


def _keep_setting(setup: StreamSetup, run: Run) -> None:
    """Record what the streams are, and refuse to go on with others: a file may have changed meanwhile."""
    prints = [stream.fingerprint() for stream in setup.streams]
    if "setting" in run.records and run.records["setting"]["streams"] != prints:
        raise ConfigError(f"a run goes on with what it began with, but the stream of {run.path} changed since.")
    run.records.append("setting", streams=prints, tasks=setup.streams[0].names, skeleton=setup.skeleton.to_json())


def _file_name(spec: str) -> str:
    """A method with its options as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9=.]+", "-", spec)
