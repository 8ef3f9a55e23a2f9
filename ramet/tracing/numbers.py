"""Numbers that modules keep about themselves, such as ``num_heads``, and that must change with their tensors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from torch import Tensor, nn

from ramet.tracing.axes import Axis, Layout, layout_size
from ramet.tracing.coupling import Coupling, Group

MAX_GUESSES = 24
"""How many sets of numbers in a forward's modules are tried for a group before it is refused."""

Attributes = dict[tuple[str, str], Layout]
"""Numbers of modules, by the module and the number's name, and the layouts that they are the size of."""

Problem = Callable[[Group], str | None]
"""What goes wrong when a group changes size."""

Family = tuple[str, str]
"""A number of a module in every block of a list: its name without the block's number, and the number's name."""


class Numbers:
    """Numbers in the modules' attributes (``num_heads``) that must change with a group, found by trial.

    Blocks of a list are taken to mean the same by a number, so that it changes in all or in none of those that a group
    runs through. What was found for a group, or was not, is what is tried for its likes in other blocks.
    ``problem`` says what goes wrong when a group changes size with the numbers that the coupling has then, or nothing.
    """

    def __init__(self, network: nn.Module, coupling: Coupling, problem: Problem) -> None:
        self._network, self._coupling, self._problem = network, coupling, problem
        self._known: dict[tuple[tuple[str, int, str], ...], tuple[Family, ...] | None] = {}

    def find(self, group: Group) -> tuple[Family, ...] | None:
        """The numbers with which a group can grow, if any were found; the coupling keeps them then."""
        # The same tensors of another block of a list differ in its number only.
        likes = tuple((_without_number(slot.tensor), slot.dim, slot.role) for slot in group.slots)
        families = self._families(group)
        if likes in self._known:
            chosen = self._known[likes]
            fits = chosen is not None and set(chosen) <= set(families) and self._try(group, chosen, families)
            return chosen if fits else None
        sets = itertools.chain.from_iterable(
            itertools.combinations(families, count) for count in range(1, len(families) + 1)
        )
        for chosen in itertools.islice(sets, MAX_GUESSES):
            if self._try(group, chosen, families):
                self._known[likes] = chosen
                return chosen
        self._known[likes] = None
        return None

    def take(self, group: Group, chosen: tuple[Family, ...]) -> None:
        """Let the coupling keep numbers that an earlier look found for a group, without a trial."""
        families = self._families(group)
        for family in chosen:
            self._coupling.attributes.update(families.get(family, {}))

    def _try(self, group: Group, chosen: tuple[Family, ...], families: dict[Family, Attributes]) -> bool:
        before = dict(self._coupling.attributes)
        for family in chosen:
            self._coupling.attributes.update(families[family])
        if self._problem(group) is None:
            return True
        self._coupling.attributes.clear()
        self._coupling.attributes.update(before)
        return False

    def _families(self, group: Group) -> dict[Family, Attributes]:
        """Attributes that may hold the group's size."""
        found: dict[Family, Attributes] = {}
        for hint in self._coupling.hints:
            module = self._network.get_submodule(hint.module)
            for layout in _pieces(hint.layout, group.axis):
                for name, value in vars(module).items():
                    if isinstance(value, int) and not isinstance(value, bool) and value == layout_size(layout):
                        family = found.setdefault((_without_number(hint.module), name), {})
                        family.setdefault((hint.module, name), layout)
        return found


def _without_number(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _pieces(layout: Layout, axis: Axis) -> list[Layout]:
    """The axis, every run of factors around it, and the whole dimension, if the axis is part of it."""
    pieces: list[Layout] = []
    for term in layout:
        if axis in term:
            place = term.index(axis)
            runs = [(i, j) for i in range(place + 1) for j in range(place + 1, len(term) + 1)]
            pieces += [(term[i:j],) for i, j in sorted(runs, key=lambda run: run[1] - run[0])]
    return [*pieces, layout] if pieces else []


def renumber_module(module: nn.Module) -> None:
    """Bring the sizes that a module of torch keeps about itself in line with its tensors."""
    weight = getattr(module, "weight", None)
    if isinstance(module, nn.Linear) and isinstance(weight, Tensor):
        module.out_features, module.in_features = weight.shape
    elif isinstance(module, nn.modules.conv._ConvNd) and isinstance(weight, Tensor):
        first, second = weight.shape[:2]
        if module.transposed:
            module.in_channels, module.out_channels = first, second * module.groups
        else:
            module.out_channels, module.in_channels = first, second * module.groups
    elif isinstance(module, nn.modules.batchnorm._NormBase):
        tensor = next((t for t in (weight, module.running_mean) if isinstance(t, Tensor)), None)
        if tensor is not None:
            module.num_features = len(tensor)
    elif isinstance(module, nn.GroupNorm) and isinstance(weight, Tensor):
        module.num_channels = len(weight)
    elif isinstance(module, nn.LayerNorm | nn.RMSNorm) and isinstance(weight, Tensor):
        module.normalized_shape = tuple(weight.shape)
    elif isinstance(module, nn.Embedding):
        module.embedding_dim = module.weight.shape[1]
    elif isinstance(module, nn.PReLU):
        module.num_parameters = len(module.weight)
