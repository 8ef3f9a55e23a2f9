"""A stream learned from its first task to its last, measured after each, and able to go on after a kill."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from ramet.continual.joint import JointNetwork
from ramet.continual.measures import summary
from ramet.continual.methods.making import MethodSource, make_method
from ramet.continual.networks.making import TemplateSource, make_template
from ramet.continual.plan import check_rates, check_scenario
from ramet.continual.rates import find_rate, with_rate
from ramet.continual.recipe import LearnRecipe
from ramet.continual.stream_saves import StreamSaves
from ramet.continual.streams.stream import Stream, TaskData, TaskInfo
from ramet.continual.training import Saves
from ramet.costs import count_flops
from ramet.errors import ConfigError
from ramet.execution import pulse
from ramet.runs import Run
from ramet.training import Metric, Settings, measure
from ramet.training.metrics import accuracy as accuracy_metric

NAN = float("nan")
_logger = logging.getLogger(__name__)


@dataclass
class Learned:
    """What comes out of a stream.

    Attributes:
        network: The joint network.
        rows: What was measured after each task: ``task``, ``test`` and ``validation`` (the metric, by default the
            accuracy, on each task so far), ``parameters``, ``stored_bytes``, ``flops`` (of the task's own network),
            ``work`` (multiply-adds of all that was trained and tried for the task) and ``work_by_phase``, ``seconds``,
            ``notes``.
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
    rates: Sequence[float] = (),
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
        run: A run to keep checkpoints in, and to append a record of each task to, when it has been saved.
        folder: Where the checkpoints go, without a run. Called again with the same one, an interrupted stream goes on
            and ends bit for bit as if it had never stopped.
        device: Where tensors are.
        seconds_between_checkpoints: How much work a kill may cost, or ten times what a save takes, if that is more; it
            has no influence on the result.
        identity: Of the run that ``folder`` is a part of, if it is; checkpoints of others are refused.
        rates: Learning rates of which each task's is found on its validation data, in place of the recipe's: by short
            trainings of a network of its own, whose work counts (``ramet.continual.rates``).
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
    check_rates(rates)
    if not isinstance(stream, Stream):
        raise ConfigError(f"a stream must be a Stream, as make_stream gives it, but got {stream!r:.80}.")
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
    stream_saves = StreamSaves(
        None if folder is None else Path(folder) / "stream", seconds_between_checkpoints, identity
    )
    learned = Learned(joint, stream_saves.resume(joint), metric)
    _check_order(stream, known, learned)
    gone = [TaskData(info, None, None) for info in known]
    data = gone + [
        task.gone() if scenario == "streaming" else task.data(device) for task in stream[: len(learned.rows)]
    ]
    made.num_expected = len(known) + len(stream)
    num_recorded = _record(learned, 0, run)
    for row in learned.rows:
        after_task(row)
    for place in range(len(learned.rows), len(stream)):
        present = stream[place].data(device)
        # Each task has a folder of its own: a resumed stream may begin with an earlier task than the last one.
        saves = Saves(None if folder is None else Path(folder) / f"task-{place}", seconds_between_checkpoints, identity)
        started = time.monotonic()
        notes = _learn_task(joint, present, data, saves, rates)
        seconds = time.monotonic() - started
        if scenario == "streaming":
            present.close()
        data.append(present)
        row = _measured(learned, stream, place, device)
        cost = {"work": saves.work.total, "work_by_phase": dict(saves.work.phases)}
        learned.rows.append(row | cost | {"seconds": seconds, "notes": notes})
        if place + 1 == len(stream) or stream_saves.is_due:
            stream_saves.save(learned.network, learned.rows)
            # Not before: a row has measured seconds, and a task that is learned again has others.
            num_recorded = _record(learned, num_recorded, run)
        saves.clear()
        after_task(learned.rows[-1])
        pulse((place + 1) / len(stream))
    return learned


def _learn_task(
    joint: JointNetwork, task: TaskData, earlier: Sequence[TaskData], saves: Saves, rates: Sequence[float]
) -> dict[str, Any]:
    """Learn one task, with a learning rate of its own if rates are to be tried; gives what the method says of it."""
    if not rates:
        return joint.learn(task, earlier, saves)
    method = joint.method
    recipe = method.settings
    rate = find_rate(method.template, task, recipe, rates, seed=method.seed, saves=saves)
    method.settings = with_rate(recipe, rate)
    try:
        return {**joint.learn(task, earlier, saves), "learning_rate": rate}
    finally:
        method.settings = recipe  # what is saved is the recipe that was asked for


def accuracy_matrix(rows: Sequence[dict[str, Any]], split: str = "test") -> list[list[float]]:
    """The accuracy matrix of recorded rows; NaN for tasks that were still to come."""
    return [[*row[split], *[NAN] * (len(rows) - len(row[split]))] for row in rows]


def costs_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What recorded rows say of costs: parameters and bytes at the end, the mean FLOPs of a task, the work of all.

    Rows of earlier versions do not know the work.
    """
    costs: dict[str, Any] = {key: rows[-1][key] for key in ("parameters", "stored_bytes")}
    known = [row["work"] for row in rows if "work" in row]
    work = sum(known) if len(known) == len(rows) else None
    return costs | {"flops": sum(row["flops"] for row in rows) / len(rows), "work": work}


def _measured(learned: Learned, stream: Stream, place: int, device: str) -> dict[str, Any]:
    """The metric on all tasks so far, and what the network costs."""
    network, metric = learned.network, learned.metric
    row: dict[str, Any] = {"task": stream[place].name, "place": place, "test": [], "validation": []}
    before = learned.rows[-1] if learned.rows else None
    # A method that forgets nothing need not be looked at again for each of the tasks before: of n, n squared times.
    # At the end every task is measured all the same, so that no result rests on a promise.
    is_kept = network.method.forgets_nothing and place + 1 < len(stream)
    for number, task in enumerate(stream[: place + 1]):
        if before is not None and is_kept and number < place:
            for role in ("test", "validation"):
                row[role].append(before[role][number])
            continue
        module = network.method.view(task.name)
        for role in ("test", "validation"):
            split = getattr(task.dataset, role)
            row[role].append(measure(module, split.x.to(device), split.y.to(device), metric))
    if before is not None and network.method.forgets_nothing:
        _check_promise(network.method.name, stream, before, row)
    own = network.task(stream[place].name)
    row["flops"] = count_flops(own, stream.input_shape, dtype=stream.form.dtype)
    row["parameters"] = network.num_parameters()
    row["stored_bytes"] = network.stored_bytes()
    return row


def _check_promise(method: str, stream: Stream, before: dict[str, Any], row: dict[str, Any]) -> None:
    """Say which tasks changed although the method promises that none does."""
    changed = [
        stream[number].name
        for number in range(len(before["test"]))
        if any(before[role][number] != row[role][number] for role in ("test", "validation"))
    ]
    if changed:
        _logger.warning("The method %s promises to forget nothing, but changed: %s.", method, ", ".join(changed))


def _record(learned: Learned, start: int, run: Run | None) -> int:
    """Append a record for each row from a place on; gives how many rows have one."""
    method = learned.network.method
    if run is not None:
        for row in learned.rows[start:]:
            key = f"{method.name}/{method.seed}/task-{row['place']}"
            run.records.append(key, method=method.name, seed=method.seed, **row)
    return len(learned.rows)


def _check_order(stream: Stream, known: Sequence[TaskInfo], learned: Learned) -> None:
    for task in known:
        if task.name in stream.names:
            raise ConfigError(f"a task is learned once, but {task.name!r} was learned already.")
    names = learned.network.names[len(known) :]
    if names != stream.names[: len(names)]:
        began = ", ".join(names)
        raise ConfigError(f"a stream goes on with the tasks it began with ({began}), but got {stream.names}.")
