"""What every task's network is made from: a body that tasks may share, and a head for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import nn

from ramet.continual.networks.wiring import Wiring
from ramet.continual.streams.stream import TaskInfo
from ramet.data import InputForm
from ramet.errors import DataError
from ramet.runs.encoding import plain
from ramet.seeding import seeded_globally

Made = TypeVar("Made", bound=nn.Module)


class Template(ABC):
    """The network that tasks are learned with: a chain of layers (``Skeleton``), or any module (``Backbone``).

    Attributes:
        shared_head: Whether all tasks have one head, as permuted MNIST usually has, instead of one each.
        is_trained: Whether every network begins with the same weights, which have learned something already.
        notes: What is to be said of how it was made, in sentences.
    """

    shared_head: bool
    is_trained: bool = False
    notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What the layers or blocks below the heads are called, in their order."""

    @property
    @abstractmethod
    def form(self) -> InputForm:
        """What an input is."""

    @property
    def head_name(self) -> str:
        """The name of the head in a task's network."""
        return "head"

    @property
    @abstractmethod
    def wiring(self) -> Wiring:
        """Which units the tensors of a network hold; a ``ConfigError`` if there are none that may come and go."""

    @abstractmethod
    def make_of_widths(self, widths: Sequence[int], num_classes: int) -> nn.Module:
        """A network whose places have other widths, drawn from the global generator."""

    @abstractmethod
    def make_head_of_widths(self, widths: Sequence[int], num_classes: int) -> nn.Module:
        """A fresh head for such a network, likewise."""

    @property
    def untrained(self) -> frozenset[str]:
        """The names in a network's state, statistics of batch norms aside, that no training changes."""
        return frozenset()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: channels, height and width of an image."""
        return self.form.shape

    @abstractmethod
    def make_features(self, seed: int, *role: str | int) -> nn.Module:
        """A body: from images to what a head takes; its first weights depend on the seed and the role alone."""

    @abstractmethod
    def make_head(self, num_classes: int) -> nn.Module:
        """A fresh head, drawn from the global generator (see ``seeded``)."""

    @abstractmethod
    def make_network(self, num_classes: int, seed: int, *role: str | int) -> nn.Module:
        """A whole network of one task."""

    @abstractmethod
    def joined(self, body: nn.Module, head: nn.Module) -> nn.Module:
        """A body and a head as a plain network with weights of its own."""

    @abstractmethod
    def body_of(self, network: nn.Module) -> nn.Module:
        """A copy of a network of this template without its head."""

    @abstractmethod
    def head_of(self, network: nn.Module) -> nn.Module:
        """A copy of the head of a network of this template."""

    @abstractmethod
    def layer_sizes(self) -> list[int]:
        """The parameters of each layer or block, without the head."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """JSON values, for a saved network."""

    def is_described_by(self, values: Mapping[str, Any]) -> bool:
        """Whether ``to_json`` of this template gave the values, perhaps in an earlier version that had fewer."""
        own = plain(self.to_json())
        return bool(plain(values) == {key: own[key] for key in values if key in own})

    def check(self, task: TaskInfo) -> None:
        """Refuse a task whose inputs are of another form."""
        if task.form == self.form:
            return
        if task.form.kind == self.form.kind == "image":
            raise DataError(
                f"a task must have images of shape {self.input_shape}, but {task.name!r} has {task.input_shape}."
            )
        raise DataError(f"a task must have {self.form}, but {task.name!r} has {task.form}.")


def seeded(make: Callable[[], Made], seed: int, *role: str | int) -> Made:
    """A module made under a generator of its own."""
    with seeded_globally(seed, "weights", *role):
        return make()
