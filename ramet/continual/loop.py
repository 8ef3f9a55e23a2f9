"""A stream learned from its first task to its last, measured after each, and able to go on after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from ramet.continual.joint import JointNetwork
from ramet.continual.measures import summary
from ramet.continual.method import Method
from ramet.continual.methods.making import MethodSource, make_method
from ramet.continual.networks.making import TemplateSource, make_template
from ramet.continual.plan import check_scenario
from ramet.continual.recipe import LearnRecipe
from ramet.continual.streams.stream import Stream, TaskData, TaskInfo
from ramet.continual.training import Saves
from ramet.costs import count_flops
from ramet.errors import ConfigError
from ramet.execution import pulse
from ramet.runs import Checkpoints, Run, differences, pack_state, unpack_state
from ramet.training import Metric, Recipe, Settings, measure
from ramet.training.metrics import accuracy as accuracy_metric

NAN = float("nan")


@dataclass
class Learned:
    """What comes out of a stream.

    Attributes:
        network: The joint network.
        rows: What was measured after each task: ``task``, ``test`` and ``validation`` (the metric, by default the
            accuracy, on each task so far), ``parameters``, ``stored_bytes``, ``flops`` (of the task's own network),
            ``seconds``, ``notes``.
        metric: What tasks were measured by.
    """

    network: JointNetwork
    rows: list[dict[str, Any]] = field(default_factory=list)
    metric: Metric = field(default_factory=accuracy_metric)

    def task(self, name: str) -> nn.Module:
        """A plain module of one task alone."""
        return self.network.task(name)

    def matrix(self, split: str = "test") -> list[list[float]]:
        """The metric as a matrix: row i after task i, column j for task j, NaN for tasks that were still to come."""
        return accuracy_matrix(self.rows, split)

    def figures(
        self, alone: Sequence[float] | None = None, joint: Sequence[float] | None = None, split: str = "test"
    ) -> dict[str, Any]:
        """The measures of ``ramet.continual.measures``, and what the network costs."""
        better = self.metric.higher_is_better
        return summary(self.matrix(split), alone, joint, higher_is_better=better) | costs_of(self.rows)


def learn(
    stream: Stream,
    *,
    method: MethodSource = "naive",
    onto: JointNetwork | None = None,
    network: TemplateSource = "mlp",
    head: str = "own",
    start: str | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    scenario: str = "streaming",
    run: Run | None = None,
    folder: str | Path | None = None,
    device: str = "cpu",
    seconds_between_checkpoints: float = 30.0,
    identity: str | None = None,
    after_task: Callable[[dict[str, Any]], None] = lambda row: None,
) -> Learned:
    """Learn the tasks of a stream one after the other.

    Args:
        stream: The tasks; ``make_stream`` makes one by name.
        method: The name of a method (``METHODS``), with options after a colon; ``FILE.py:Class`` or a class or function
            of one's own; or a method.
        onto: A network that has learned other tasks already and goes on with these; method, network, settings and seed
            are then its own.
        network: The name of a network, a function that makes one, any module, which is taken with the weights that it
            has, or a template; see ``make_template``.
        head: ``own``, a head for each task, or ``shared``, where the network is no template.
        start: A file of trained weights that networks begin with, but for their heads.
        settings: The numbers of each training; ``LearnRecipe()`` if none.
        seed: What all randomness follows from.
        scenario: ``streaming``, in which a finished task's data are gone, or ``all``.
        run: A run to append a record to after each task, and to keep checkpoints in.
        folder: Where the checkpoints go, without a run. Called again with the same one, an interrupted stream goes on
            and ends bit for bit as if it had never stopped.
        device: Where tensors are.
        seconds_between_checkpoints: How much work a kill may cost; it has no influence on the result.
        identity: Of the run that ``folder`` is a part of, if it is; checkpoints of others are refused.
        after_task: Called with the row of each task, when it has been learned and measured.

    Raises:
        ConfigError: The method needs another scenario, or a name or an option is unknown.
        DataError: The tasks do not fit the network.
        RunError: A loss is not finite.

    Example:
        >>> from ramet.continual import make_stream
        >>> learned = learn(make_stream("split-digits:2", train_size=200), method="individual")
        >>> learned.network.names
        ['digits 0 1 2 3 4', 'digits 5 6 7 8 9']
    """
    check_scenario(scenario)
    if onto is None:
        template = make_template(
            network,
            form=stream.form,
            num_classes=stream[0].info.num_classes,
            head=head,
            start=start,
            seed=seed,
        )
        fresh = make_method(method)
        fresh.start(template, settings or LearnRecipe(), seed, device)
        joint = JointNetwork(fresh)
    else:
        joint, seed = onto, onto.method.seed
    made = joint.method
    if made.needs_earlier and (scenario != "all" or joint.names):
        raise ConfigError(f"the method {made.name} needs the scenario all, but got {scenario!r}.")
    for task in stream:
        made.template.check(task.info)
    metric = (settings or made.settings).metric_for(stream[0].dataset.train.y)
    made.check_targets(stream[0].dataset.train.y, metric)
    if run is not None and folder is None:
        folder, identity = run.path / "checkpoints" / f"{made.name}-{seed}", run.identity
    known = list(made.tasks)
    places = None if folder is None else Checkpoints(Path(folder) / "stream", identity=identity)
    learned = _resumed(joint, places)
    learned.metric = metric
    _check_order(stream, known, learned)
    gone = [TaskData(info, None, None) for info in known]
    data = gone + [
        task.gone() if scenario == "streaming" else task.data(device) for task in stream[: len(learned.rows)]
    ]
    for row in learned.rows:
        _report(row, made, seed, run, after_task)
    for place in range(len(learned.rows), len(stream)):
        present = stream[place].data(device)
        saves = Saves(None if folder is None else Path(folder) / "task", seconds_between_checkpoints, identity)
        started = time.monotonic()
        notes = learned.network.learn(present, data, saves)
        seconds = time.monotonic() - started
        if scenario == "streaming":
            present.close()
        data.append(present)
        row = _measured(learned.network, stream, place, device, metric)
        learned.rows.append(row | {"seconds": seconds, "notes": notes})
        _save(learned, places)
        saves.clear()
        _report(learned.rows[-1], made, seed, run, after_task)
        pulse((place + 1) / len(stream))
    return learned


def accuracy_matrix(rows: Sequence[dict[str, Any]], split: str = "test") -> list[list[float]]:
    """The accuracy matrix of recorded rows; NaN for tasks that were still to come."""
    return [[*row[split], *[NAN] * (len(rows) - len(row[split]))] for row in rows]


def costs_of(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What recorded rows say of a network's costs: parameters and bytes at the end, the mean FLOPs of a task."""
    costs: dict[str, float] = {key: rows[-1][key] for key in ("parameters", "stored_bytes")}
    return costs | {"flops": sum(row["flops"] for row in rows) / len(rows)}


def _measured(network: JointNetwork, stream: Stream, place: int, device: str, metric: Metric) -> dict[str, Any]:
    """The metric on all tasks so far, and what the network costs."""
    row: dict[str, Any] = {"task": stream[place].name, "place": place, "test": [], "validation": []}
    for task in stream[: place + 1]:
        module = network.task(task.name)
        for role in ("test", "validation"):
            split = getattr(task.dataset, role)
            row[role].append(measure(module, split.x.to(device), split.y.to(device), metric))
    own = network.task(stream[place].name)
    row["flops"] = count_flops(own, stream.input_shape, dtype=stream.form.dtype)
    row["parameters"] = network.num_parameters()
    row["stored_bytes"] = network.stored_bytes()
    return row


def _report(
    row: dict[str, Any], method: Method, seed: int, run: Run | None, after_task: Callable[[dict[str, Any]], None]
) -> None:
    if run is not None:
        run.records.append(f"{method.name}/{seed}/task-{row['place']}", method=method.name, seed=seed, **row)
    after_task(row)


def _save(learned: Learned, checkpoints: Checkpoints | None) -> None:
    if checkpoints is not None:
        tensors, packed = pack_state({"rows": learned.rows})
        network_tensors, network = learned.network.snapshot()
        state = {"rows": packed, "network": network}
        checkpoints.save(len(learned.rows), {**tensors, **network_tensors}, state)


def _resumed(fresh: JointNetwork, checkpoints: Checkpoints | None) -> Learned:
    checkpoint = None if checkpoints is None else checkpoints.load()
    if checkpoints is None or checkpoint is None:
        return Learned(fresh)
    method = fresh.method
    stored = unpack_state(checkpoint.tensors, checkpoint.state["network"])
    methods = {method.source or method.name: type(method)}
    template, packed = method.template, checkpoint.state["network"]
    is_same = template.is_described_by(stored["skeleton"])
    if is_same:
        began = JointNetwork.from_snapshot(checkpoint.tensors, packed, methods, template=template)
    if not is_same or _arguments(fresh) != _arguments(began):
        raise ConfigError(
            f"a stream goes on with the arguments it began with, but {checkpoints.folder} began with others."
        )
    method.tasks = began.method.tasks
    method.load_state(stored["state"])
    return Learned(fresh, unpack_state(checkpoint.tensors, checkpoint.state["rows"])["rows"])


def _arguments(joint: JointNetwork) -> tuple[Any, ...]:
    # The recipe by what is not at the defaults: what is read back is of its base class, or of an earlier version.
    method, functions = joint.method, joint.functions
    recipe = differences(method.settings, defaults_of=Recipe)
    for name in ("metric", *functions):  # nothing that is learned depends on a metric; functions are known by name
        recipe.pop(name, None)
    return method.name, method.options, recipe, functions, method.seed


def _check_order(stream: Stream, known: Sequence[TaskInfo], learned: Learned) -> None:
    for task in known:
        if task.name in stream.names:
            raise ConfigError(f"a task is learned once, but {task.name!r} was learned already.")
    names = learned.network.names[len(known) :]
    if names != stream.names[: len(names)]:
        began = ", ".join(names)
        raise ConfigError(f"a stream goes on with the tasks it began with ({began}), but got {stream.names}.")
