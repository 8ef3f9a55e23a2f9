"""Grow sequences: which task comes when, where it is bound and how much it grows; what one of them gives."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import safetensors.torch
from torch import nn

from ramet.continual.joint import JointNetwork
from ramet.continual.loop import learn
from ramet.continual.measures import average_gain, paper_gain
from ramet.continual.methods.bind_and_grow.method import BindAndGrow
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.streams.stream import Stream, Task
from ramet.continual.training import Saves
from ramet.errors import ConfigError
from ramet.runs.atomic import write_atomically
from ramet.training import Settings, accuracy

STARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The coefficients of all tasks that a search of a coefficient for each task begins with."""
COMPUTED = "(least conflict)"
"""The binding that is not given but follows from the conflicts."""


class Suggests(Protocol):
    """What a space asks of an Optuna trial."""

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None) -> float:
        """A number of a range."""

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> str:
        """One of several."""


@dataclass(frozen=True)
class GrowSequence:
    r"""A grow sequence :math:`\pi = [(t, b_t, \delta_t)]`.

    Attributes:
        order: the tasks in the order in which they are learned.
        deltas: the grow coefficient of each.
        bindings: the task that each is bound to, where that is given.
    """

    order: tuple[str, ...]
    deltas: Mapping[str, float]
    bindings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values, for records."""
        return {"order": list(self.order), "deltas": dict(self.deltas), "bindings": dict(self.bindings)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> GrowSequence:
        """The inverse of ``to_json``."""
        return cls(tuple(values["order"]), values["deltas"], values["bindings"])


@dataclass(frozen=True, kw_only=True)
class SequenceSpace:
    """The grow sequences that are searched; the defaults are the paper's low-budget setting.

    Attributes:
        delta: ``shared``, one coefficient for all tasks, or ``per-task``.
        step: the coefficients lie on a grid of this step.
        binding: ``computed``, to the least conflict, or ``free``, also to any earlier task.
        order: ``fixed``, as the stream has it, or ``free``.

    Raises:
        ConfigError: a value is none of these.
    """

    delta: Literal["shared", "per-task"] = "shared"
    step: float = 0.05
    binding: Literal["computed", "free"] = "computed"
    order: Literal["fixed", "free"] = "fixed"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("delta", self.delta, ("shared", "per-task")),
            ("binding", self.binding, ("computed", "free")),
            ("order", self.order, ("fixed", "free")),
        ):
            if value not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, but got {value!r}.")
        if not 0 < self.step <= 1:
            raise ConfigError(f"the step of delta must be above 0 and at most 1, but got {self.step}.")

    def suggest(self, trial: Suggests, tasks: Sequence[str]) -> GrowSequence:
        """The sequence of a trial. An order is a number for each task, sorted: every sampler can handle numbers."""
        order = list(tasks)
        if self.order == "free":
            keys = {task: trial.suggest_float(f"order/{task}", 0.0, 1.0) for task in tasks}
            order.sort(key=lambda task: (keys[task], tasks.index(task)))
        growing = tasks if self.order == "free" else tasks[1:]  # the first task founds the network
        if self.delta == "shared":
            shared = self._delta(trial, "delta")
            deltas = {task: shared for task in growing}
        else:
            deltas = {task: self._delta(trial, f"delta/{task}") for task in growing}
        bindings = {}
        if self.binding == "free":
            for task in growing:
                others = [other for other in tasks if other != task]
                if self.order == "fixed":
                    others = others[: tasks.index(task)]
                chosen = trial.suggest_categorical(f"bind/{task}", [COMPUTED, *others])
                # With a free order a task may be asked to bind to one that comes later: its binding is then computed.
                if chosen != COMPUTED and order.index(chosen) < order.index(task):
                    bindings[task] = chosen
        return GrowSequence(tuple(order), deltas, bindings)

    def starts(self, tasks: Sequence[str]) -> list[dict[str, float | str]]:
        """What a search begins with: one coefficient for all tasks, bindings computed, the order as it is.

        With a coefficient for each task, random sequences all lie near the middle, because their coefficients average
        out. Those of one coefficient spread over the sizes, from the shared network to the fully expanded one, and a
        search that knows them is never behind them.

        Returns:
            The parameters of the trials; none where one coefficient is all that is searched.
        """
        if self.delta == "shared":
            return []
        starts = []
        for value in dict.fromkeys(round(round(value / self.step) * self.step, 6) for value in STARTS):
            start: dict[str, float | str] = {}
            if self.order == "free":
                start |= {f"order/{task}": place / len(tasks) for place, task in enumerate(tasks)}
            for task in tasks if self.order == "free" else tasks[1:]:
                start[f"delta/{task}"] = value
                if self.binding == "free":
                    start[f"bind/{task}"] = COMPUTED
            starts.append(start)
        return starts

    def _delta(self, trial: Suggests, name: str) -> float:
        return round(trial.suggest_float(name, 0.0, 1.0, step=self.step), 6)


@dataclass(frozen=True)
class SequenceBench:
    """What all sequences have in common: sent to each worker once.

    Args:
        stream: the tasks.
        skeleton: their network.
        settings: the numbers of each training.
        seed: what all trainings' randomness follows from.
        options: options of ``BindAndGrow``, but for delta and bindings.
        folder: where the networks that were trained alone are, and where trials save themselves.
        alone: the accuracies of the tasks trained alone, by split and task; empty until they are known.
        device: where tensors are.
        seconds_between_checkpoints: how much work of a training a kill may cost.
    """

    stream: Stream
    skeleton: Skeleton
    settings: Settings
    seed: int
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    alone: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    device: str = "cpu"
    seconds_between_checkpoints: float = 30.0

    def method(
        self, deltas: Mapping[str, float] | None = None, bindings: Mapping[str, str] | None = None
    ) -> BindAndGrow:
        """A fresh method; tasks that are learned later grow by the mean of the given coefficients."""
        mean = round(sum(deltas.values()) / len(deltas), 6) if deltas else 1.0
        given = {"": mean, **(deltas or {})}
        return BindAndGrow(delta=given, bindings=dict(bindings or {}), **self.options)


def train_alone(setup: SequenceBench, *, task: str) -> dict[str, float]:
    """Train a task alone, keep its network, and give its accuracies: the reference and the probe of all trials."""
    method = setup.method()
    method.start(setup.skeleton, setup.settings, setup.seed, setup.device)
    entry = setup.stream[setup.stream.names.index(task)]
    file = _probe_file(setup, task)
    saves = Saves(file.with_suffix(".saves"), setup.seconds_between_checkpoints)
    method.learn(entry.data(setup.device), saves=saves)
    network = method.network(task)
    setup.folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.cpu() for name, tensor in network.state_dict().items()}
    write_atomically(file, safetensors.torch.save(state))
    shutil.rmtree(file.with_suffix(".saves"), ignore_errors=True)
    found: dict[str, float] = {"parameters": method.num_parameters()}
    for role, split in _splits(entry.dataset).items():
        found[role] = accuracy(network, split.x.to(setup.device), split.y.to(setup.device))
    return found


def run_sequence(
    setup: SequenceBench,
    *,
    sequence: Mapping[str, Any],
    checkpoints: str | None = None,
    save: str | None = None,
    blind: bool = False,
) -> dict[str, Any]:
    """Learn the tasks as a sequence says.

    Args:
        setup: what all sequences have in common; its ``alone`` must be known.
        sequence: the JSON of a ``GrowSequence``.
        checkpoints: where the learning saves itself; called again, it goes on from there.
        save: the file that the joint network is written to.
        blind: leave test data out, as a search must, which chooses among sequences.

    Returns:
        ``gain`` (on validation data, more is better), ``gains`` of each task, ``parameters``, and, unless blind, the
        same on test data for reports.
    """
    asked = GrowSequence.from_json(sequence)
    tasks = {task.name: _without_test(task) if blind else task for task in setup.stream}
    stream = Stream(setup.stream.name, [tasks[name] for name in asked.order])
    method = setup.method(asked.deltas, asked.bindings)
    method.known_probes = {name: _known_probe(setup, name, tasks[name].dataset.num_classes) for name in asked.order}
    learned = learn(
        stream,
        method=method,
        network=setup.skeleton,
        settings=setup.settings,
        seed=setup.seed,
        folder=checkpoints,
        device=setup.device,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
    )
    if save is not None:
        Path(save).parent.mkdir(parents=True, exist_ok=True)
        learned.network.save(save)
    alone = {role: [setup.alone[role][name] for name in asked.order] for role in ("validation", "test")}
    matrices = {role: learned.matrix(role) for role in alone}
    tested = {
        "test_gain": average_gain(matrices["test"], alone["test"]),
        "test_accuracy": sum(matrices["test"][-1]) / len(stream),
    }
    final = zip(asked.order, matrices["validation"][-1], alone["validation"], strict=True)
    return {
        "gain": average_gain(matrices["validation"], alone["validation"]),
        "gains": {name: float(reached - reference) for name, reached, reference in final},
        "parameters": learned.rows[-1]["parameters"],
        **({} if blind else tested),
        "paper_gain": paper_gain(matrices["validation"], alone["validation"]),
        "bound_to": {d.task: d.bound_to for d in method.decisions if d is not None},
        "added": {row["task"]: row["notes"]["added_parameters"] for row in learned.rows},
        "expanded": {d.task: list(d.expanded) for d in method.decisions if d is not None},
    }


def measure_on_test(setup: SequenceBench, *, file: str) -> dict[str, Any]:
    """The figures of a saved joint network on test data: what a report says of a point that was chosen already."""
    network = JointNetwork.load(file)
    found = {}
    for task in setup.stream:
        data = task.dataset.test
        found[task.name] = accuracy(
            network.task(task.name).to(setup.device), data.x.to(setup.device), data.y.to(setup.device)
        )
    gains = [found[name] - setup.alone["test"][name] for name in setup.stream.names]
    return {
        "test_gain": sum(gains) / len(gains),
        "test_accuracy": sum(found.values()) / len(found),
        "accuracies": found,
        "explanation": network.explain(),
    }


def _without_test(task: Task) -> Task:
    """The task with its validation data in place of its test data, which a search must not see."""
    return Task(task.name, replace(task.dataset, test=task.dataset.validation))


def _known_probe(setup: SequenceBench, task: str, num_classes: int) -> nn.Sequential:
    network = setup.skeleton.make_network(num_classes, 0)
    network.load_state_dict(safetensors.torch.load_file(_probe_file(setup, task)))
    return network.eval()


def _probe_file(setup: SequenceBench, task: str) -> Path:
    return setup.folder / f"alone-{setup.stream.names.index(task)}.safetensors"


def _splits(data: Any) -> dict[str, Any]:
    return {"validation": data.validation, "test": data.test}
