"""What `ramet learn` does: learns the stream by each method with each seed, and turns the rows into figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from ramet.continual.joint import JointNetwork
from ramet.continual.loop import Learned, accuracy_matrix, costs_of, learn
from ramet.continual.measures import summary
from ramet.continual.method import Method, check_classes
from ramet.continual.methods.making import make_method
from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.making import make_template
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import Stream
from ramet.data import on_device
from ramet.errors import ConfigError, RunError
from ramet.execution import WorkItem
from ramet.exporting.card import Card
from ramet.exporting.onnx import check_installed
from ramet.jobs.learn.controls import control_items
from ramet.jobs.learn.earlier import EarlierTasks, check_earlier
from ramet.jobs.learn.foresight import foresee, foreseen_stream
from ramet.jobs.learn.result import ONTO
from ramet.jobs.learn.specs import by_name, file_name, spec_of
from ramet.reports.metric import MetricFigures
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet.training import Metric, Recipe
from ramet.training.rehearsal import rehearse

if TYPE_CHECKING:
    from ramet.continual.plan import LearnPlan
    from ramet.jobs.job import Session
    from ramet.jobs.learn.job import LearnJob

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class StreamSetup:
    """What every worker is given.

    Args:
        streams: one for each seed.
        methods: by their names and options, individual networks first, because the gain is over theirs.
        trust: whether code that the saved network names may run.
        earlier: tasks that the saved network knows, with their data, as far as they are there.
        exported: the methods whose tasks are written as files of their own, those of the first seed.
        onnx: whether they are written for onnxruntime, too.
        changes: options that the plan gives to methods besides their own, by method.
        controls: which methods are compared with networks of the same work and size.
        rates: learning rates that are tried for each task.
        seconds_between_checkpoints: how much work of a training a kill may cost.
    """

    name: str
    streams: list[Stream]
    template: Template
    methods: Mapping[str, str | Method]
    onto: str | None
    recipe: Recipe
    scenario: str
    seed: int
    device: str
    trust: bool = False
    earlier: Stream | None = None
    exported: tuple[str, ...] = ()
    onnx: bool = False
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    controls: str = "none"
    rates: tuple[float, ...] = ()
    folder: Path = Path()
    seconds_between_checkpoints: float = 30.0
    identity: str | None = None

    @property
    def specs(self) -> list[str]:
        """What learns the stream: the methods, and a network that goes on."""
        return [*self.methods, *([] if self.onto is None else [ONTO])]

    @property
    def module(self) -> nn.Module | None:
        """The module that was given as an object: a saved network of it can't name what makes it."""
        template = self.template
        return template.module if isinstance(template, Backbone) and template.source is None else None

    @property
    def metric(self) -> Metric:
        """What tasks are measured by."""
        return self.recipe.metric_for(self.streams[0][0].dataset.train.y)

    @property
    def seeds(self) -> range:
        """The seeds, one for each stream."""
        return range(self.seed, self.seed + len(self.streams))

    def method(self, spec: str) -> Method:
        """A method of this setup that has learned nothing."""
        source = self.methods[spec]
        made = make_method(source) if isinstance(source, str) else source.fresh()
        if not (changes := self.changes.get(spec)):
            return made
        changed = made.fresh(**changes)
        changed.source = made.source
        return changed


def build_setup(job: LearnJob, trust: bool) -> StreamSetup:
    """The streams, the network and the methods of a job; refuses whatever cannot work."""
    plan = job.plan
    if plan.onnx:
        check_installed()
    methods = by_name(plan.each_method)
    asked = [method if isinstance(method, str) else spec_of(method) for method in plan.each_method]
    streams = job.data_options.streams(job.stream, range(job.seed, job.seed + plan.seeds), trust)
    known = None if plan.onto is None else _going_on(plan, streams[0], trust, job.seed)
    if known is not None:
        streams = [stream.in_channels_of(known.method.template.form) for stream in streams]
    first = on_device(streams[0][0].dataset, job.device)  # refuses a device that is not there
    template = _template(plan, streams[0], job.seed) if known is None else known.method.template
    setup = StreamSetup(
        name=job.stream if isinstance(job.stream, str) else streams[0].name,
        streams=streams,
        template=template,
        methods=methods,
        onto=plan.onto,
        recipe=job.recipe,
        scenario=plan.scenario,
        seed=job.seed,
        device=job.device,
        trust=trust,
        earlier=None if known is None else _earlier(job, known, trust),
        exported=(*asked, *([] if plan.onto is None else [ONTO])) if plan.exports else (),
        onnx=plan.onnx,
        changes={name: _changes(plan, make_method(methods[name]), name) for name in asked},
        controls=plan.controls,
        rates=plan.each_rate,
    )
    for spec in methods:
        method = setup.method(spec)
        if method.needs_earlier and plan.scenario != "all":
            raise ConfigError(f"the method {spec} needs the scenario all, but got {plan.scenario!r}.")
        method.check_network(template)
        method.check_targets(streams[0][0].dataset.train.y, setup.metric)
    if template.shared_head:
        check_classes([task.info for task in streams[0]])
    if known is not None:
        _check_onto(str(plan.onto), streams[0], known)
    trial = template.make_network(first.num_outputs, job.seed, "rehearsal").to(job.device)
    rehearse(job.recipe, trial, first.train.x, first.train.y)
    return setup


def learn_all(setup: StreamSetup, session: Session) -> Json:
    """Learn the stream by every method with every seed that the records do not hold yet; gives the result."""
    run = session.run
    seconds = session.seconds_between_checkpoints
    setup = replace(setup, folder=run.path, seconds_between_checkpoints=seconds, identity=run.identity)
    items = [
        WorkItem(f"{spec}/{seed}", learn_one, {"method": spec, "place": place})
        for spec in setup.specs
        for place, seed in enumerate(setup.seeds)
    ]
    left = [item for item in items if item.key not in run.records]
    if len(left) == len(items):  # of one that goes on it was said before
        with suppress(RunError):  # of a loss that is not finite the method itself will tell
            session.notify("foreseen", {"line": foreseen_stream(foresee(setup), setup.controls)})
    for item, value in session.executor.run(left, setup, label="learning", on_failure=run.record_failure):
        run.records.append(item.key, method=item.arguments["method"], **value)
    items = control_items(setup, _rows(setup, run))
    left = [item for item in items if item.key not in run.records]
    for item, value in session.executor.run(left, setup, label="controls", on_failure=run.record_failure):
        run.records.append(item.key, method=item.arguments["name"], control_of=item.arguments["of"], **value)
    return _result(setup, run)


def _rows(setup: StreamSetup, run: Run) -> dict[str, list[Rows]]:
    """What each method measured, for each seed."""
    return {spec: [run.records[f"{spec}/{seed}"]["rows"] for seed in setup.seeds] for spec in setup.specs}


def learn_one(setup: StreamSetup, method: str, place: int) -> Json:
    """One method with one seed: a task of the executor. Saves the joint network, gives the rows and the words."""
    seed = setup.seeds[place]
    name = f"{file_name(method)}-{seed}"
    onto: JointNetwork | None = None
    before: EarlierTasks | None = None
    if method == ONTO:
        onto = JointNetwork.load(str(setup.onto), trust=setup.trust, network=setup.module)
        before = EarlierTasks(onto, setup.earlier, setup.metric, setup.device)
    learned = learn(
        setup.streams[place],
        method="naive" if method == ONTO else setup.method(method),
        onto=onto,
        network=setup.template,
        settings=setup.recipe,
        seed=seed,
        scenario=setup.scenario,
        folder=setup.folder / "checkpoints" / name,
        device=setup.device,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        identity=setup.identity,
        rates=setup.rates,
    )
    networks = setup.folder / "networks"
    networks.mkdir(exist_ok=True)
    learned.network.save(networks / f"{name}.safetensors")
    made = learned.network.method
    folder, problems = None, {}
    if method in setup.exported and place == 0:
        folder = f"networks/{name}"
        problems = learned.network.export_tasks(
            setup.folder / folder, onnx=setup.onnx, cards=_cards(setup, learned, method, place)
        )
    return {
        "rows": learned.rows,
        "explanation": made.explain(),
        "graph": made.graph(),
        "units": made.units(),
        "forgets_nothing": made.forgets_nothing,
        "file": f"networks/{name}.safetensors",
        "exported": folder,
        "not_exported": problems,
        "earlier": [] if before is None else before.compare(learned.network),
    }


def _cards(setup: StreamSetup, learned: Learned, method: str, place: int) -> dict[str, Card]:
    """What is said of each task of a stream: what it was learned from, and how good it is when all are learned."""
    last, stream = learned.rows[-1], setup.streams[place]
    cards = {}
    for number, task in enumerate(stream):
        card = learned.network.card(task.name)
        cards[task.name] = replace(
            card,
            title=f"{task.name}, learned by {method}",
            data=task.dataset.facts() | {"stream": setup.name},
            figures={
                f"{setup.metric.name} on {role} {task.dataset.rows}, when all tasks are learned": last[role][number]
                for role in ("validation", "test")
            },
        )
    return cards


def _result(setup: StreamSetup, run: Run) -> Json:
    rows = _rows(setup, run)
    told = described_metric(setup)
    metric = MetricFigures(**told.get("metric", {}))
    controls = {str(item.arguments["name"]): str(item.arguments["of"]) for item in control_items(setup, rows)}
    beside = {name: [run.records[f"{name}/{seed}"]["rows"] for seed in setup.seeds] for name in controls}
    methods = analyse(rows | beside, metric=metric)
    validation = analyse(rows | beside, split="validation", metric=metric)
    for name in beside:
        methods[name]["validation_accuracy"] = validation[name]["figures"]["average_accuracy"]
    apart = {name: methods.pop(name) for name in beside}
    for spec, entry in methods.items():
        first = run.records[f"{spec}/{setup.seed}"]
        entry |= {key: first.get(key) for key in ("explanation", "graph", "units", "file", "exported")}
        entry["not_exported"] = first.get("not_exported", {})  # records of earlier versions have none
        # Records of earlier versions have the names alone: nothing was measured, and nothing is claimed.
        earlier = [task if isinstance(task, dict) else {"name": task} for task in first.get("earlier", [])]
        entry["earlier"] = [task for task in earlier if "unchanged" in task]
        entry["unmeasured"] = [task["name"] for task in earlier if not _is_known(task)]
        # Of records of earlier versions, which do not say it, the method without its network is asked.
        promised = first.get("forgets_nothing", spec != ONTO and setup.method(spec).forgets_nothing)
        if spec == ONTO:
            is_kept = all(task.get("unchanged", False) for task in earlier)
            promised = True if promised and is_kept else None if entry["unmeasured"] else False
        entry["forgets_nothing"] = promised
        entry["validation_accuracy"] = validation[spec]["figures"]["average_accuracy"]
    named: Json = {"stream": setup.name, "tasks": setup.streams[0].names, "seeds": list(setup.seeds)}
    if setup.streams[0].form.kind == "image":  # of a text they are its words
        named["classes"] = [list(task.info.class_names) for task in setup.streams[0]]
    return {**named, "methods": methods, "controls": apart, "controls_of": controls, **told}


def described_metric(setup: StreamSetup) -> Json:
    """What records and results say of the metric; of the accuracy on images, nothing, as in earlier versions."""
    told: Json = setup.metric.described()
    if (rows := setup.streams[0].rows) != "images":
        told["rows"] = rows
    return told


def _changes(plan: LearnPlan, method: Method, name: str) -> dict[str, Any]:
    """What a plan says of a method besides its own options; refuses what it does not take."""
    changes: dict[str, Any] = {}
    wanted = {"target": (plan.target, method.target_option), "budget": (plan.num_parameters, method.budget_option)}
    for option, (value, own) in wanted.items():
        if value in (None, 0):
            continue
        if not own:
            takers = {"target": "warm-start, firefly and cpg", "budget": "warm-start"}[option]
            raise ConfigError(f"a {option} is for {takers}, but got {name}.")
        changes[own] = value
    return changes


def _is_known(task: Json) -> bool:
    """Whether it is known what became of an earlier task: its weights stayed, or it was measured."""
    return bool(task.get("unchanged")) or task.get("after") is not None


def _template(plan: LearnPlan, stream: Stream, seed: int) -> Template:
    """The architecture of a plan, for the tasks of a stream."""
    return make_template(
        plan.network,
        form=stream.form,
        num_classes=stream[0].info.num_classes,
        batch_norm=plan.batch_norm,
        head=plan.head,
        start=plan.start,
        classifier=plan.classifier,
        seed=seed,
    )


def _going_on(plan: LearnPlan, stream: Stream, trust: bool, seed: int) -> JointNetwork:
    """The network that goes on; a module that was given as an object is needed for it."""
    module = plan.network if isinstance(plan.network, nn.Module) else None
    if module is None and not isinstance(plan.network, str):
        made = _template(plan, stream, seed)
        module = made.module if isinstance(made, Backbone) and made.source is None else None
    known = JointNetwork.load(str(plan.onto), trust=trust, network=module)
    known.check_recipe()
    return known


def _earlier(job: LearnJob, known: JointNetwork, trust: bool) -> Stream | None:
    """The data of tasks that a network knows."""
    source = job.plan.earlier
    if source is None:
        return None
    stream = job.data_options.streams(source, range(job.seed, job.seed + 1), trust)[0]
    stream = stream.in_channels_of(known.method.template.form)
    check_earlier(stream, known, source)
    return stream


def _check_onto(file: str, stream: Stream, known: JointNetwork) -> None:
    known.method.template.check(stream[0].info)
    for task in known.method.tasks:
        if task.name in stream.names:
            raise ConfigError(f"a task is learned once, but {task.name!r} was learned already by {file}.")


def analyse(
    rows: Mapping[str, Sequence[Rows]], *, split: str = "test", metric: MetricFigures | None = None
) -> dict[str, Any]:
    """The figures of each method, over seeds, with individual networks and joint training as references if they ran.

    Args:
        rows: For each method, by its name and options, the rows of ``Learned`` for each seed, in one order of seeds.
        split: The split that accuracies are taken from.
        metric: What the rows hold; accuracies if none.

    Returns:
        For each method ``figures`` (each with ``mean``, ``deviation`` over seeds and ``values``), the mean ``matrix``
        (None for tasks still to come), the parameters (``growth``) and stored bytes (``stored``) after each task, and
        the ``notes`` of the first seed's tasks.
    """
    metric = metric or MetricFigures()
    alone = [[row[split][-1] for row in seed] for seed in rows["individual"]] if "individual" in rows else None
    joint = [[row[split][-1] for row in seed] for seed in rows["joint"]] if "joint" in rows else None
    methods = {}
    for name, seeds in rows.items():
        figures = [
            _figures(
                seed, split, None if alone is None else alone[place], None if joint is None else joint[place], metric
            )
            for place, seed in enumerate(seeds)
        ]
        matrices = [accuracy_matrix(seed, split) for seed in seeds]
        methods[name] = {
            "figures": {key: _spread([seed[key] for seed in figures]) for key in figures[0]},
            "matrix": _mean_matrix(matrices),
            "growth": [statistics.fmean(seed[task]["parameters"] for seed in seeds) for task in range(len(seeds[0]))],
            "work": [_mean_work(seeds, task) for task in range(len(seeds[0]))],
            "stored": [statistics.fmean(seed[task]["stored_bytes"] for seed in seeds) for task in range(len(seeds[0]))],
            "notes": [row["notes"] for row in seeds[0]],
        }
    return methods


def _figures(
    rows: Rows, split: str, alone: Sequence[float] | None, joint: Sequence[float] | None, metric: MetricFigures
) -> dict[str, float | None]:
    seconds = math.fsum(row["seconds"] for row in rows)
    better = metric.higher_is_better
    figures = summary(accuracy_matrix(rows, split), alone, joint, higher_is_better=better)
    if better and not metric.is_share and metric.name != "R²":
        figures["paper_gain"] = None  # how far such a metric is from its best is not known
    return figures | costs_of(rows) | {"seconds": seconds}


def _mean_work(seeds: Sequence[Rows], task: int) -> float | None:
    known = [seed[task]["work"] for seed in seeds if "work" in seed[task]]
    return statistics.fmean(known) if len(known) == len(seeds) else None


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "deviation": None, "values": list(values)}
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return {"mean": statistics.fmean(known), "deviation": deviation, "values": list(values)}


def _mean_matrix(matrices: Sequence[Sequence[Sequence[float]]]) -> list[list[float | None]]:
    size = len(matrices[0])
    means = [[statistics.fmean(m[i][j] for m in matrices) for j in range(size)] for i in range(size)]
    return [[None if math.isnan(value) else value for value in row] for row in means]
