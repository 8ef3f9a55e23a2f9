"""The seam between a stream of tasks and a method that learns them one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, final

from torch import Tensor, nn

from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData, TaskInfo
from ramet.continual.training import Saves
from ramet.errors import ConfigError, DataError
from ramet.runs import pack_state
from ramet.training import Metric, Settings


@dataclass(kw_only=True, eq=False)
class Method(ABC):
    """Learns task after task, and gives back the network of any of them.

    A method is a dataclass whose fields are its options, all of them JSON values, and which refuses one that is out of
    its range with a ``ConfigError``; a saved network can then make the method anew. What it learns is state: made in
    ``_begin``, changed in ``_learn``, given by ``state`` and taken back by ``load_state``. Nothing else may survive
    from one task to the next, so that a run that was killed goes on bit for bit, and a saved network takes a new task
    on another machine.

    An author writes ``_begin``, ``_learn``, ``network``, ``num_parameters``, ``state`` and ``load_state``. The checks
    of ``ramet.testing.methods`` tell whether the method keeps what this seam promises.

    Attributes:
        name: How the method is called on the command line and in records.
        forgets_nothing: Whether the outputs of a finished task stay the same, bit for bit, whatever is learned later;
            a loop then measures a task when it is learned, and at the end.
        needs_earlier: Whether it needs the data of earlier tasks, that is the scenario ``all``.
        takes_shared_head: Whether its tasks may have one head in common.
        needs_chain: Why it needs a chain of layers, a ``Skeleton``, as the end of a sentence; empty if it takes any
            module.
        needs_units: Whether it adds and leaves out units of a network: neurons, channels, heads.
        keeps_start: Whether each task begins with the network's first weights, so that trained ones must be kept.
        needs_classes: Why each input must have one class, as the end of a sentence; empty if targets may also be
            numbers, or classes of tokens.
        needs_accuracy: Why tasks must be measured by accuracy, likewise; empty if the metric may be any.
        target_option: Which option is the validation score at which a task stops to grow; empty if it has none.
        budget_option: Which option is the number of parameters of all tasks together; empty if it has none.
        num_expected: How many tasks there will be, those learned before included; 0 where nobody has said.
        template: What every task's network is made from.
        settings: The numbers of a training.
        seed: What all randomness follows from.
        device: Where the weights and the data are.
        tasks: The tasks learned so far, in order.
        source: What the method was made from, where that was a text: a name, or ``FILE.py:Class``.
    """

    name: ClassVar[str]
    forgets_nothing: ClassVar[bool] = False
    needs_earlier: ClassVar[bool] = False
    takes_shared_head: ClassVar[bool] = False
    needs_chain: ClassVar[str] = "it is written for one"
    needs_units: ClassVar[bool] = False
    keeps_start: ClassVar[bool] = False
    needs_classes: ClassVar[str] = "it is written for classes"
    needs_accuracy: ClassVar[str] = ""
    target_option: ClassVar[str] = ""
    budget_option: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.template: Template
        self.settings: Settings
        self.seed: int = 0
        self.device: str = "cpu"
        self.tasks: list[TaskInfo] = []
        self.num_expected: int = 0
        self.source: str | None = None

    # What a loop calls.

    @final
    def start(self, template: Template, settings: Settings, seed: int, device: str = "cpu") -> None:
        """Begin with no task; whatever was learned before is dropped."""
        self.check_network(template)
        self.template, self.settings, self.seed, self.device, self.tasks = template, settings, seed, device, []
        self._begin()

    @property
    def skeleton(self) -> Skeleton:
        """The template of a method that needs a chain of layers."""
        assert isinstance(self.template, Skeleton)
        return self.template

    @final
    def learn(self, task: TaskData, earlier: Sequence[TaskData] = (), saves: Saves | None = None) -> dict[str, Any]:
        """Learn one more task.

        Args:
            task: Its data.
            earlier: The data of the tasks before it, in order; in the streaming scenario they raise when touched.
            saves: Where the method saves itself while it learns.

        Returns:
            What the method has to say about this task, as JSON: goes into the records.

        Raises:
            ConfigError: A task of that name was learned already, or earlier data are needed and not given.
            DataError: The images do not fit the network.
        """
        if any(task.info.name == known.name for known in self.tasks):
            raise ConfigError(f"a task is learned once, but {task.info.name!r} was learned already.")
        self.template.check(task.info)
        if self.template.shared_head and self.tasks:
            check_classes([self.tasks[0], task.info])
        if self.needs_earlier and (len(earlier) < len(self.tasks) or any(data.is_closed for data in earlier)):
            raise ConfigError(f"the method {self.name} needs the scenario all, but the data of earlier tasks are gone.")
        notes = self._learn(task, earlier, Saves() if saves is None else saves)
        self.tasks.append(task.info)
        return notes

    def check_network(self, template: Template) -> None:
        """Refuse a network that this method cannot learn with."""
        if template.shared_head and not self.takes_shared_head:
            raise ConfigError(f"the method {self.name} has a head for each task, so that head must be own, not shared.")
        if self.needs_chain and not isinstance(template, Skeleton):
            raise ConfigError(
                f"the method {self.name} needs a chain of layers (mlp, conv) that is not trained yet, because "
                f"{self.needs_chain}, but got a module; bind-and-grow, for one, takes any."
            )

        if self.needs_units:
            try:
                _ = template.wiring
            except ConfigError as error:
                raise ConfigError(f"the method {self.name} adds and leaves out units: {error}") from None

    def check_targets(self, targets: Tensor, metric: Metric) -> None:
        """Refuse targets that this method cannot learn, and a metric that it cannot be measured by."""
        if self.needs_classes and (targets.is_floating_point() or targets.ndim > 1):
            kind = "numbers" if targets.is_floating_point() else "classes of tokens"
            raise ConfigError(
                f"the method {self.name} needs one class for each input, because {self.needs_classes}, but got {kind}; "
                "bind-and-grow, for one, takes any."
            )
        if self.needs_accuracy and not metric.is_accuracy:
            raise ConfigError(
                f"the method {self.name} needs the metric accuracy, because {self.needs_accuracy}, but got "
                f"{metric.name}."
            )

    @property
    def options(self) -> dict[str, Any]:
        """The options that the method was made with."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    @final
    def describe(self) -> dict[str, Any]:
        """What identifies the method among others: its name and its options."""
        return {"name": self.name, "options": self.options}

    @final
    def fresh(self, **changes: Any) -> Self:
        """A method of the same options, but for those that are given, that has learned nothing."""
        try:
            return type(self)(**self.options | changes)
        except TypeError as error:
            raise ConfigError(
                f"a method must be made anew from its options, but {self.name} is not: {error}."
            ) from None

    def place(self, name: str) -> int:
        """Which task a name is, counted from 0; a ``ConfigError`` if no such task was learned."""
        for place, task in enumerate(self.tasks):
            if task.name == name:
                return place
        known = ", ".join(task.name for task in self.tasks) or "none"
        raise ConfigError(f"a task must be one that was learned ({known}), but got {name!r}.")

    @final
    def stored_bytes(self) -> int:
        """Bytes of everything that must be kept to go on: weights, masks, memories."""
        tensors, _ = pack_state(self.state())
        distinct = {(tensor.data_ptr(), tensor.shape): tensor for tensor in tensors.values() if tensor.numel()}
        if (start := self.kept_start()) is not None:
            distinct |= {(tensor.data_ptr(), tensor.shape): tensor for tensor in start.values()}
        return sum(tensor.numel() * tensor.element_size() for tensor in distinct.values())

    @final
    def kept_start(self) -> dict[str, Tensor] | None:
        """The trained weights that tasks still to come begin with; None if there are none, or none are needed."""
        if not self.keeps_start or not isinstance(self.template, Backbone) or not self.template.is_trained:
            return None
        return self.template.start()

    def explain(self) -> list[str]:
        """Why the network became what it is, a sentence a decision; nothing for methods that decide nothing."""
        return []

    def graph(self) -> dict[str, Any] | None:
        """The joint network as a graph for the report, if it is one of shared and own layers; None if not.

        ``{"nodes": [{"id", "layer", "task", "parameters"}], "paths": {task: [id, ...]}}``
        """
        return None

    def units(self) -> dict[str, Any] | None:
        """Which neurons or weights each task uses, for the report, if tasks share single ones; None if not.

        ``{"unit": "neurons", "layers": [name, ...], "uses": {task: [[number, ...], ...]}}``, for each layer how many it
        uses of those that were made for the first task, for the second, and so on up to its own.
        """
        return None

    @final
    def _units(
        self, uses: Callable[[int], list[list[int]]], unit: str = "neurons", layers: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """What ``units`` gives, from the numbers that the task of each place uses, by layer of the template."""
        used = {task.name: uses(place) for place, task in enumerate(self.tasks)}
        return {"unit": unit, "layers": list(layers or self.template.names), "uses": used}

    def view(self, name: str) -> nn.Module:
        """The network of a task as it is now, to be run and let go before the next task: it may hold weights of ours.

        What a loop measures. After each task a method that forgets is measured on all tasks so far, of n tasks n
        squared times; with a copy of the weights for each, the copies take longer than the measuring.
        """
        return self.network(name)

    # What an author writes.

    @abstractmethod
    def _begin(self) -> None:
        """Make the state of a method that has learned nothing, from template, settings and seed."""

    @abstractmethod
    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        """Learn the task that will be ``self.tasks[len(self.tasks)]``; see ``learn``."""

    @abstractmethod
    def network(self, name: str) -> nn.Module:
        """The network of a task: a plain module in evaluation mode, of torch's own classes, with weights of its own."""

    @abstractmethod
    def num_parameters(self) -> int:
        """The weights of all tasks together; one that several tasks share counts once."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What was learned, as a structure for ``ramet.runs.pack_state``; the list of tasks is kept apart."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``, on a method that was started and whose ``tasks`` are set."""


def check_classes(tasks: Sequence[TaskInfo]) -> None:
    """Refuse tasks that cannot share a head, because they differ in classes."""
    for task in tasks:
        if task.num_classes != tasks[0].num_classes:
            raise DataError(
                f"tasks that share a head must have as many classes, but {tasks[0].name!r} has {tasks[0].num_classes} "
                f"and {task.name!r} {task.num_classes}."
            )
