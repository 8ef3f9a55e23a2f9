"""What a space of architectures and its supernet are: the seam that every space implements.

A space is a list of decisions, each with a number of options; an architecture is the tuple of options taken. So every
space is enumerated, indexed, sampled and grouped by the same few lines, and a strategy or a sharing needs to know
nothing else about it.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, SupportsIndex, overload

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.registry.lines import one_line
from ramet.spaces.short_names import legend, short_name

Arch = tuple[int, ...]
"""One architecture: for each decision of its space, the index of the option taken, counted from 0."""


@dataclass(frozen=True)
class CellGraph:
    """A cell of an architecture as a picture has it: nodes by key and text, edges by two keys and an operation."""

    title: str
    nodes: tuple[tuple[str, str], ...]
    edges: tuple[tuple[str, str, str], ...]


class Space(ABC, Sequence[Arch]):
    """The architectures there are, in lexicographic order, from the number of options of each decision.

    A space behaves as an immutable sequence of architectures: ``len(space)``, ``space[59]``, ``list(space)`` and
    ``arch in space`` work without ever holding them all. ``space.index(arch)`` is the inverse of ``space[i]``.

    A space answers for itself: how its sizes are called, whether its inputs are words, how an architecture is drawn and
    what its final network is. All of this has defaults, so that an author of a space writes only what is abstract.
    """

    takes_text: bool = False
    """Whether inputs are words by number, shape [batch, time], and not images."""

    size_names: ClassVar[Mapping[str, str]] = {"channels": "channels", "cells": "num_cells", "nodes": "num_nodes"}
    """The arguments of this space for the sizes that a command asks for: width, number of cells, nodes of a cell."""

    small_sizes: ClassVar[Mapping[str, int]] = {}
    """Sizes for a first try on a small machine, where the space's own defaults are a paper's."""

    has_final_network: ClassVar[bool] = False
    """Whether ``final_network`` makes a network that differs from the path in a supernet."""

    inherits: ClassVar[bool] = False
    """Whether a child is finished with the weights that it has in a trained supernet, and not trained anew alone."""

    calls_its_weights: ClassVar[bool] = False
    """Whether a child's weights are those of the layers that its forward pass calls, so that calls can be counted."""

    def __init__(self, num_options: Sequence[int]) -> None:
        if not num_options or min(num_options) < 1:
            raise ConfigError(
                f"a space needs at least one decision of at least one option, but got {tuple(num_options)}."
            )
        self.num_options = tuple(num_options)

    @abstractmethod
    def supernet(self, in_channels: int, num_classes: int) -> Supernet:
        """A freshly initialised supernet that holds every architecture of this space."""

    @abstractmethod
    def name(self, arch: Arch) -> str:
        """The architecture in the space's own notation."""

    @abstractmethod
    def parse(self, text: str) -> Arch:
        """The architecture of a notation; the inverse of ``name``. Raises ``ConfigError`` for any other text."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The arguments that make this space again, as JSON values: what identifies it in a run and in a cache.

        The entry ``kind`` names the space for ``make_space``: a built-in one, or the reference of a class of one's own,
        ``package.module:Class``, which then takes the other entries as arguments.
        """

    @property
    def option_names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The name of each decision and those of its options; nothing where a space has no words for them."""
        return ()

    def short_name(self, arch: Arch) -> str:
        """The architecture in at most a few characters, for plots and tables; ``legend`` explains it."""
        return short_name(self.name(arch), self.check(arch), self.option_names)

    def legend(self) -> list[str]:
        """What a short name means, a line for each kind of place in it; nothing where names are short as they are."""
        first = self[0]
        return [] if self.short_name(first) == self.name(first) else legend(self.option_names)

    def described_as(self, kind: str) -> dict[str, Any]:
        """The description of a space whose arguments are all its attributes by the same names."""
        values = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        return {"kind": kind} | {n: list(value) if isinstance(value, tuple) else value for n, value in values.items()}

    @property
    def num_archs(self) -> int:
        """The number of architectures; ``len(space)`` is the same, where it fits into a machine's word."""
        return math.prod(self.num_options)

    def __repr__(self) -> str:
        return one_line(self, f"{self.num_archs:,} architectures")

    def __len__(self) -> int:
        return self.num_archs

    @overload
    def __getitem__(self, index: int) -> Arch: ...

    @overload
    def __getitem__(self, index: slice) -> list[Arch]: ...

    def __getitem__(self, index: int | slice) -> Arch | list[Arch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.num_archs))]
        place: object = index
        if not isinstance(place, SupportsIndex):
            raise ConfigError(f"an architecture's place is a whole number, but got {place!r:.60}.")
        if not -self.num_archs <= index < self.num_archs:
            raise IndexError(f"index must be below the {self.num_archs} architectures of the space, but got {index}.")
        rest = int(index) % self.num_archs
        choices = []
        for options in reversed(self.num_options):
            rest, choice = divmod(rest, options)
            choices.append(choice)
        return tuple(reversed(choices))

    def __iter__(self) -> Iterator[Arch]:
        return (self[i] for i in range(self.num_archs))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # A space never changes, so that copies of a supernet can have one in common.

    def __contains__(self, arch: object) -> bool:
        return (
            isinstance(arch, tuple)
            and len(arch) == len(self.num_options)
            and all(
                isinstance(choice, int) and 0 <= choice < n for choice, n in zip(arch, self.num_options, strict=True)
            )
        )

    def check(self, arch: Arch) -> Arch:
        """The architecture itself, or a ``ConfigError`` that says why it is not of this space."""
        if arch not in self:
            raise ConfigError(f"an architecture of this space takes one of {self.num_options} options, but got {arch}.")
        return arch

    def index(self, arch: Arch, start: int = 0, stop: int | None = None) -> int:
        """The place of an architecture in lexicographic order."""
        place = 0
        for choice, options in zip(self.check(arch), self.num_options, strict=True):
            place = place * options + choice
        return place

    def sample(self, generator: torch.Generator) -> Arch:
        """An architecture drawn uniformly."""
        return tuple(int(torch.randint(n, (), generator=generator)) for n in self.num_options)

    @classmethod
    def size_arguments(cls, *, small: bool = False, **sizes: int | None) -> dict[str, Any]:
        """The arguments of this space for the sizes of ``size_names`` that are given; a ``ConfigError`` for others."""
        given = {name: value for name, value in sizes.items() if value is not None}
        if unknown := sorted(set(given) - set(cls.size_names)):
            raise ConfigError(f"sizes of {cls.__name__} are {', '.join(cls.size_names)}, but got {', '.join(unknown)}.")
        chosen = {**(cls.small_sizes if small else {}), **given}
        return {cls.size_names[name]: chosen[name] for name in cls.size_names if name in chosen}

    def resized(self, **sizes: int | None) -> Self:
        """This space with other sizes, see ``size_arguments``."""
        arguments = {name: value for name, value in self.describe().items() if name != "kind"}
        return type(self)(**{**arguments, **self.size_arguments(small=False, **sizes)})

    def final_network(self, arch: Arch, in_channels: int, num_classes: int, *, auxiliary: bool = False) -> NetworkAlone:
        """The network in which an architecture is trained alone in the end, with a second classifier if asked for."""
        raise ConfigError(f"only a path of the supernet is trained in the end, and {type(self).__name__} has no other.")

    def large_network(self, arch: Arch, in_channels: int, num_classes: int, *, auxiliary: bool = False) -> NetworkAlone:
        """The same for images of 224 x 224, whose stem makes them an eighth as large."""
        raise ConfigError(f"a network for large images is one of darts, but {type(self).__name__} has none.")

    def graph(self, arch: Arch) -> list[CellGraph]:
        """The cells of an architecture, to be drawn; nothing for a space that draws none."""
        return []

    def derived(self, arch: Arch) -> Arch:
        """The architecture that a search may end with in place of one that it may only look at; most are their own."""
        return arch

    def function_of(self, arch: Arch) -> Hashable:
        """What an architecture computes: those of one value are one function in several notations.

        A search looks at one of them, the first. By default each architecture is a function of its own.
        """
        return arch

    @property
    def mixed_options(self) -> tuple[int, ...]:
        """Of each edge that DARTS mixes operations on, how many there are."""
        return self.num_options

    def strongest(self, weights: Sequence[Tensor]) -> Arch:
        """The architecture of the strongest operations of a mixture, a row of weights for each of ``mixed_options``."""
        return tuple(int(row.argmax()) for row in weights)

    def example(self, num_samples: int, input_shape: Sequence[int], num_classes: int) -> Tensor:
        """Random inputs that the supernet takes, for checks and for counting; a space of tokens overrides it."""
        return torch.randn(num_samples, *input_shape)


class NetworkAlone(nn.Module, ABC):
    """One architecture as a network that is trained alone, with what is only for its training."""

    @abstractmethod
    def forward(self, x: Tensor, arch: Arch | None = None) -> Tensor:
        """Logits; ``arch`` may be named, as for a supernet, and must then be this one."""

    @abstractmethod
    def loss(
        self, x: Tensor, y: Tensor, *, auxiliary_weight: float, of_outputs: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """The loss on a mini-batch, in training with that of an auxiliary classifier at a weight."""

    @abstractmethod
    def plain(self) -> nn.Module:
        """The network without what is only for training, which needs no ramet to run."""

    @abstractmethod
    def set_drop_path(self, probability: float) -> None:
        """Change how probably an operation is left out for an image in training."""


def training_loss(
    network: nn.Module, x: Tensor, y: Tensor, arch: Arch, of_outputs: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The loss of an architecture's turn: a supernet says what that is, of any other network it is the path's own."""
    return network.loss(x, y, arch, of_outputs) if isinstance(network, Supernet) else of_outputs(network(x, arch), y)


class Supernet(nn.Module, ABC):
    """A module that holds every architecture of a space on one set of weights.

    A supernet is a chain of stages: ``forward(x, arch)`` calls ``stage(x, arch)`` for each in turn. The first
    stage is the stem and the last one the head, so that sharing a prefix means sharing the first few stages.
    """

    stages: nn.ModuleList

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """Logits of one architecture, shape [batch, classes]."""
        for stage in self.stages:
            x = stage(x, arch)
        return x

    def name_in_module(self, name: str) -> str:
        """How a weight is called in the module that the space was made of; of other spaces, as in the supernet."""
        return name

    @abstractmethod
    def child(self, arch: Arch) -> nn.Module:
        """One architecture as a plain module with a copy of the inherited weights, which needs no ramet to run."""

    def loss(self, x: Tensor, y: Tensor, arch: Arch, of_outputs: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """What a step that an architecture's turn has come to minimises on a mini-batch; by default its own loss."""
        return of_outputs(self(x, arch), y)

    def forward_all(self, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
        """Logits of many architectures on one batch, in order; spaces override it to walk common prefixes once.

        Only for evaluation mode: a batch norm in training mode would see the shared prefix once instead of once a
        child. Wrap it in ``torch.no_grad()``, or the graph keeps what could be freed on the way.
        """
        self.check_evaluation()
        return (self(x, arch) for arch in archs)

    def check_evaluation(self) -> None:
        """Raise a ``ConfigError`` in training mode."""
        if self.training:
            raise ConfigError("forward_all needs evaluation mode, but the supernet is in training mode: call eval().")
