"""What a grow sequence gives: the stream learned as it says, measured against each task alone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from torch import nn

from ramet.continual.joint import JointNetwork
from ramet.continual.loop import learn
from ramet.continual.measures import average_gain, paper_gain
from ramet.continual.method import Method
from ramet.continual.methods.bind_and_grow.method import BindAndGrow
from ramet.continual.methods.individual import Individual
from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.block_graph import START
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import Stream, Task
from ramet.continual.study.space import GrowSequence
from ramet.continual.training import Saves
from ramet.errors import ConfigError
from ramet.fields import from_json
from ramet.runs.atomic import write_atomically
from ramet.training import Metric, Settings, measure


@dataclass(frozen=True)
class SequenceSetup:
    """What all sequences have in common: sent to each worker once.

    Args:
        options: options of ``BindAndGrow``, but for delta and bindings.
        folder: where the networks that were trained alone are, and where trials save themselves.
        alone: what the tasks trained alone have by the metric, by split and task; empty until they are known.
        seconds_between_checkpoints: how much work of a training a kill may cost.
    """

    stream: Stream
    template: Template
    settings: Settings
    seed: int
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    alone: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    device: str = "cpu"
    seconds_between_checkpoints: float = 30.0
    identity: str | None = None

    @property
    def metric(self) -> Metric:
        """What tasks are measured by."""
        return self.settings.metric_for(self.stream[0].dataset.train.y)

    @property
    def base(self) -> str | None:
        """What is there before all tasks, and may be bound to as a task may: a trained network, if it is one."""
        return START if self.template.is_trained else None

    def method(
        self, deltas: Mapping[str, float] | None = None, bindings: Mapping[str, str] | None = None
    ) -> BindAndGrow:
        """A fresh method; tasks that are learned later grow by the mean of the given coefficients.

        Raises:
            ConfigError: a trained network is to grow within a budget, and so not by its coefficients.
        """
        mean = round(sum(deltas.values()) / len(deltas), 6) if deltas else 1.0
        given = {"": mean, **(deltas or {})}
        options = dict(self.options)
        # By default a trained network grows within a budget, and no coefficient would change anything.
        if self.template.is_trained and options.setdefault("budget", 0.0):
            raise ConfigError(
                "the budget must be 0 in a study of a trained network, because it takes the place of delta, which is "
                f"searched, but got {options['budget']:g}."
            )
        return BindAndGrow(delta=given, bindings=dict(bindings or {}), **options)

    def method_alone(self) -> Method:
        """A fresh method that trains a task alone; a copy of a trained network begins as individual networks do."""
        if not self.template.is_trained:
            return self.method()
        return Individual(head_weights=self.options.get("head_weights", Individual.head_weights))


def train_alone(setup: SequenceSetup, *, task: str) -> dict[str, float]:
    """Train a task alone, keep its network, and give its metric: the reference and the probe of all trials."""
    method = setup.method_alone()
    method.start(setup.template, setup.settings, setup.seed, setup.device)
    entry = setup.stream[setup.stream.names.index(task)]
    file = _probe_file(setup, task)
    saves = Saves(file.with_suffix(".saves"), setup.seconds_between_checkpoints, setup.identity)
    method.learn(entry.data(setup.device), saves=saves)
    network = method.network(task)
    setup.folder.mkdir(parents=True, exist_ok=True)
    # A module may know a tensor by two names, of which safetensors writes none, or hold it in another order.
    state = {name: tensor.cpu().clone().contiguous() for name, tensor in network.state_dict().items()}
    write_atomically(file, safetensors.torch.save(state))
    shutil.rmtree(file.with_suffix(".saves"), ignore_errors=True)
    found: dict[str, float] = {"parameters": method.num_parameters()}
    for role, split in _splits(entry.dataset).items():
        found[role] = measure(network, split.x.to(setup.device), split.y.to(setup.device), setup.metric)
    return found


def run_sequence(
    setup: SequenceSetup,
    *,
    sequence: Mapping[str, Any],
    checkpoints: str | None = None,
    save: str | None = None,
    blind: bool = False,
) -> dict[str, Any]:
    """Learn the tasks as a sequence, the JSON of a ``GrowSequence``, says; the ``alone`` of the setup must be known.

    Gives the ``gain`` on validation data, more is better, the ``gains`` of each task and ``parameters``; the same on
    test data for reports, unless ``blind``, as a search must be, which chooses among sequences. The learning saves
    itself in ``checkpoints`` and goes on from there; ``save`` is the file of the joint network.

    A gain is a difference of scores: of the metric, or of minus the metric where lower is better. ``paper_gain`` is a
    ratio of errors, which only a share has; of another metric it is none.
    """
    asked = from_json(GrowSequence, sequence)
    tasks = {task.name: _without_test(task) if blind else task for task in setup.stream}
    stream = Stream(setup.stream.name, [tasks[name] for name in asked.order])
    method = setup.method(asked.deltas, asked.bindings)
    method.known_probes = {name: _known_probe(setup, name, tasks[name].info.num_classes) for name in asked.order}
    learned = learn(
        stream,
        method=method,
        network=setup.template,
        settings=setup.settings,
        seed=setup.seed,
        folder=checkpoints,
        device=setup.device,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        identity=setup.identity,
    )
    if save is not None:
        Path(save).parent.mkdir(parents=True, exist_ok=True)
        learned.network.save(save)
    alone = {role: [setup.alone[role][name] for name in asked.order] for role in ("validation", "test")}
    matrices = {role: learned.matrix(role) for role in alone}
    metric = setup.metric
    tested = {
        "test_gain": metric.score(average_gain(matrices["test"], alone["test"])),
        "test_accuracy": sum(matrices["test"][-1]) / len(stream),
    }
    final = zip(asked.order, matrices["validation"][-1], alone["validation"], strict=True)
    return {
        "gain": metric.score(average_gain(matrices["validation"], alone["validation"])),
        "gains": {name: metric.score(float(reached - reference)) for name, reached, reference in final},
        "parameters": learned.rows[-1]["parameters"],
        **({} if blind else tested),
        "paper_gain": _paper_gain(matrices["validation"], alone["validation"], metric),
        "bound_to": {d.task: d.bound_to for d in method.decisions if d is not None},
        "added": {row["task"]: row["notes"]["added_parameters"] for row in learned.rows},
        "expanded": {d.task: list(d.expanded) for d in method.decisions if d is not None},
    }


def measure_on_test(setup: SequenceSetup, *, file: str) -> dict[str, Any]:
    """The figures of a saved joint network on test data: what a report says of a point that was chosen already."""
    # The module is the one that is here, so that no code runs that the file names.
    module = setup.template.module if isinstance(setup.template, Backbone) else None
    network = JointNetwork.load(file, network=module)
    found = {}
    for task in setup.stream:
        data = task.dataset.test
        alone = network.task(task.name).to(setup.device)
        found[task.name] = measure(alone, data.x.to(setup.device), data.y.to(setup.device), setup.metric)
    gains = [setup.metric.score(found[name] - setup.alone["test"][name]) for name in setup.stream.names]
    return {
        "test_gain": sum(gains) / len(gains),
        "test_accuracy": sum(found.values()) / len(found),
        "accuracies": found,
        "explanation": network.explain(),
    }


def _paper_gain(matrix: Sequence[Sequence[float]], alone: Sequence[float], metric: Metric) -> float | None:
    """The paper's gain, of errors: 1 minus a share, or a share of which lower is better; none of another metric."""
    if not metric.is_share:
        return None
    if metric.higher_is_better:
        return paper_gain(matrix, alone)
    return paper_gain(1 - np.asarray(matrix), 1 - np.asarray(alone))


def _without_test(task: Task) -> Task:
    """The task with its validation data in place of its test data, which a search must not see."""
    return Task(task.name, replace(task.dataset, test=task.dataset.validation))


def _known_probe(setup: SequenceSetup, task: str, num_classes: int) -> nn.Module:
    network = setup.template.make_network(num_classes, 0)
    network.load_state_dict(safetensors.torch.load_file(_probe_file(setup, task)))
    return network.eval()


def _probe_file(setup: SequenceSetup, task: str) -> Path:
    return setup.folder / f"alone-{setup.stream.names.index(task)}.safetensors"


def _splits(data: Any) -> dict[str, Any]:
    return {"validation": data.validation, "test": data.test}
