"""`ramet grow` as a function: build what the options name, grow by each method, meet the test set once, report."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ramet.costs import count_parameters
from ramet.data import load, on_device
from ramet.errors import ConfigError
from ramet.execution import Executor, Inline, WorkItem
from ramet.growth.budget import Budget
from ramet.growth.growing import Ends
from ramet.growth.making import make_network
from ramet.growth.methods.making import make_method
from ramet.growth.tasks import GrowthSetup, finish, rehearse, take_turn
from ramet.registry import file_name
from ramet.reports.grow import write_grow_report
from ramet.runs import Run, ScalarMirror, remove_run, require_tensorboard
from ramet.runs.encoding import plain
from ramet.training import Settings

KIND = "grow"
DEFAULT_GROWTH = 10
"""Without a budget a network may get so many times its size."""
SECONDS_A_TURN = 20.0
"""A worker process does steps for so long before it reports; starting one costs about a second."""

OnStep = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class GrowJob:
    """Everything that a growth from the command line depends on; its JSON is a run's ``config.json``.

    Args:
        network: the name of a network, or ``FILE.py:function``.
        network_options: arguments of the network.
        data: the name or the path of a data set.
        data_options: arguments of ``ramet.data.load``.
        methods: how it grows; the methods are compared, and start from the same weights.
        method_options: arguments of the methods, by their names.
        budget: how large it may get, such as ``params=200k, step=30%``; ten times its size by steps of 30 % if none.
        settings: of each training between two growths.
        ends: when growth ends, besides the end of the budget.
        seed: of everything random.
        device: where tensors are.

    Raises:
        ConfigError: there is no method, one is named twice or is not known, or an option is of no method.
    """

    network: str = "vgg"
    network_options: dict[str, Any] = field(default_factory=dict)
    data: str = "digits"
    data_options: dict[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ("firefly",)
    method_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    budget: str | None = None
    settings: Settings = field(default_factory=Settings)
    ends: Ends = field(default_factory=Ends)
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise ConfigError(f"methods must be named once each, at least one, but got {', '.join(self.methods)!r}.")
        if stray := sorted(set(self.method_options) - set(self.methods)):
            raise ConfigError(f"options are for the methods {', '.join(self.methods)}, but got {', '.join(stray)}.")
        for method in self.methods:
            try:
                make_method(method, **self.method_options.get(method, {}))
            except TypeError as error:
                raise ConfigError(f"options of {method} must be numbers of their kind, but: {error}.") from None

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values."""
        return asdict(self) | {"methods": list(self.methods)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> GrowJob:
        """The job of a run's ``config.json``."""
        try:
            made = {
                "settings": Settings(**values["settings"]),
                "ends": Ends(**values["ends"]),
                "methods": tuple(values["methods"]),
            }
            return cls(**{**values, **made})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"config.json must describe a growth, but does not: {error}.") from None

    def build(self, seconds_between_checkpoints: float = 30.0) -> GrowthSetup:
        """The network, the data and the budget; refuses whatever cannot work, before anything is written."""
        try:
            data = on_device(load(self.data, **self.data_options), self.device)
        except TypeError as error:  # only a config.json that was edited by hand has options that load does not know
            raise ConfigError(f"data_options must be options of a data set, but: {error}.") from None
        network = make_network(
            self.network,
            in_channels=data.in_channels,
            image_size=data.image_size,
            num_classes=data.num_classes,
            options=self.network_options,
            seed=self.seed,
        )
        budget = Budget("params", DEFAULT_GROWTH * float(max(count_parameters(network), 1)))
        return GrowthSetup(
            network=self.network,
            network_options=self.network_options,
            data=data,
            budget=budget if self.budget is None else Budget.parse(self.budget),
            settings=self.settings,
            ends=self.ends,
            method_options=self.method_options,
            seed=self.seed,
            start={name: value.detach() for name, value in network.state_dict().items()},
            seconds_between_checkpoints=seconds_between_checkpoints,
        )


def grow_run(
    job: GrowJob,
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
    on_step: OnStep = lambda method, step: None,
) -> dict[str, Any]:
    """Grow a network in a new run directory; gives the result, and leaves the networks and ``report.html`` there.

    Args:
        job: what grows, and how.
        out: the run directory.
        executor: where methods run; with several workers they grow at the same time.
        overwrite: replace a run that is there already.
        tensorboard: also write the numbers of the records as TensorBoard scalars.
        seconds_between_checkpoints: how much work of a training a kill may cost; it has no influence on the result.
        on_step: called with a method and the record of a step that it has finished.

    Raises:
        ConfigError: something cannot work, or ``out`` is not empty; nothing is written then.
        RunError: the loss is not finite, or the disk refuses.
    """
    if tensorboard:
        require_tensorboard()
    setup = job.build(seconds_between_checkpoints)
    setting = _setting(setup, job)
    if overwrite:
        remove_run(out)
    with Run.create(out, KIND, job.to_json()) as run, closing(ScalarMirror(run)) if tensorboard else nullcontext():
        return _grow(job, setup, setting, run, executor, on_step)


def resume_grow(
    path: Path,
    executor: Executor,
    *,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
    on_step: OnStep = lambda method, step: None,
) -> dict[str, Any]:
    """Go on with a growth that was interrupted; one that is finished gives its result again."""
    if tensorboard:
        require_tensorboard()
    with Run.open(path) as run, closing(ScalarMirror(run)) if tensorboard else nullcontext():
        job = GrowJob.from_json(run.config)
        setup = job.build(seconds_between_checkpoints)
        return _grow(job, setup, _setting(setup, job), run, executor, on_step)


def _setting(setup: GrowthSetup, job: GrowJob) -> dict[str, Any]:
    """What the network and the data are; a growth's start is tried on the way."""
    first, layers = rehearse(setup, job.methods[0])
    values = {
        "data": setup.data.fingerprint(),
        "layers": layers,
        "refusals": [asdict(refusal) for refusal in first.history.refusals],
        "budget": asdict(setup.budget),
    }
    return dict(plain(values))


def _grow(
    job: GrowJob, setup: GrowthSetup, setting: dict[str, Any], run: Run, executor: Executor, on_step: OnStep
) -> dict[str, Any]:
    for name, value in setting.items():  # a file may have changed since the run began
        if "setting" in run.records and run.records["setting"][name] != value:
            raise ConfigError(f"a run goes on with what it began with, but the {name} of {run.path} changed since.")
    # The weights that all methods start from are kept: a function of the user's own may draw others another time.
    start = run.checkpoints("start")
    if (kept := start.load()) is None:
        start.save(0, setup.start, {})
    else:
        setup = replace(setup, start={name: tensor.to(job.device) for name, tensor in kept.tensors.items()})
    run.records.append("setting", **setting)
    turn = 0.0 if isinstance(executor, Inline) else SECONDS_A_TURN
    setup = replace(setup, folder=run.path, seconds_a_turn=turn)
    while waiting := [method for method in job.methods if f"{method}/end" not in run.records]:
        tasks = [WorkItem(method, take_turn, {"method": method}) for method in waiting]
        with closing(_results(executor, tasks, setup, run, f"growing by {', '.join(waiting)}")) as results:
            for task, history in results:
                _record(run, task.key, history, on_step)
    tasks = [WorkItem(method, finish, {"method": method}) for method in job.methods if method not in run.records]
    with closing(_results(executor, tasks, setup, run, "testing")) as results:
        for task, outcome in results:
            run.records.append(task.key, **outcome)
    result = _summary(job, setting, run)
    run.records.append("result", **result)
    write_grow_report(run.path)
    return result


def _results(
    executor: Executor, tasks: list[WorkItem], setup: GrowthSetup, run: Run, label: str
) -> Generator[tuple[WorkItem, Any], None, None]:
    yield from executor.run(tasks, setup, label=label, on_failure=run.record_failure)


def _record(run: Run, method: str, history: dict[str, Any], on_step: OnStep) -> None:
    """Write down what a turn has done; a turn gives all steps, because a kill may have come before their records."""
    for step in history["steps"]:
        if step["score"] is None:
            continue  # grown, but not trained yet
        key = f"{method}/step-{step['number']:03d}"
        seconds = {"growing": step.pop("seconds"), "training": step.pop("train_seconds")}
        if run.records.append(key, **step):
            on_step(method, step)
        if f"{key}/seconds" not in run.records:  # measured, so never twice the same
            run.records.append(f"{key}/seconds", **seconds)
    if history["stopped"]:
        run.records.append(f"{method}/end", stopped=history["stopped"])


def _summary(job: GrowJob, setting: dict[str, Any], run: Run) -> dict[str, Any]:
    """Every method's curve and what it ended with."""
    methods: dict[str, Any] = {}
    for method in job.methods:
        prefix = f"{method}/step-"
        keys = sorted(record["key"] for record in run.records if record["key"].startswith(prefix))
        found = [run.records[key] for key in keys if not key.endswith("/seconds")]
        steps = [{name: value for name, value in record.items() if name != "key"} for record in found]
        end = run.records[method]
        methods[method] = {
            "stopped": run.records[f"{method}/end"]["stopped"],
            "steps": steps,
            "params": steps[-1]["sizes"]["params"],
            "flops": steps[-1]["sizes"]["flops"],
            "neurons": steps[-1]["sizes"]["neurons"],
            "validation": steps[-1]["score"],
            "test": end["test"],
            "layers": end["layers"],
            "network": f"networks/{file_name(method)}",
            "not_exported": end["not_exported"],
        }
    return {**setting, "network": job.network, "data_name": job.data, "seed": job.seed, "methods": methods}
