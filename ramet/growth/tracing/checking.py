"""The coupling of a network, checked: a copy is grown for every group, and what changes its outputs is refused.

The rules of the trace cannot know everything. A forward may hold a size as a number, branch on its data, or use memory
behind the trace's back. So each group is tried on a copy, with one unit split and one new unit that is silent; the
outputs must stay the same. A group that fails is refused, with what went wrong as the reason.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ramet.errors import ConfigError
from ramet.growth.surgery.widening import Widening, slot_shape
from ramet.growth.surgery.writing import copy_network, widen
from ramet.growth.tracing.axes import Axis, Layout, layout_size
from ramet.growth.tracing.coupling import Coupling, Group, Inputs, call, evaluating, returned, trace

TOLERANCE = 1e-7
"""Largest relative change of an output that is put down to rounding, in double precision."""

SINGLE_TOLERANCE = 1e-4
"""The same in single precision, for networks that do not run in double."""

MAX_GUESSES = 24
"""How many sets of numbers in a forward's modules are tried for a group before it is refused."""


def outputs(network: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The tensors that a network returns and that must not change, in evaluation mode."""
    with evaluating(network):
        return [tensor.detach() for tensor in returned(call(network, inputs))]


def largest_change(before: list[Tensor], after: list[Tensor]) -> float:
    """The largest change of any output, relative to the largest output; infinite if shapes differ."""
    worst = 0.0
    for old, new in zip(before, after, strict=True):
        if old.shape != new.shape:
            return float("inf")
        if old.numel() and old.is_floating_point():
            scale = max(float(old.abs().max()), 1e-12)
            change = float((new - old).abs().max()) / scale
            worst = max(worst, change if change == change else float("inf"))
    return worst


class InDouble(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it, a double stays one: norms and positions of large models are otherwise computed in single precision."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and args[0].dtype == torch.float64:
            wanted = kwargs.get("dtype")
            if wanted is not None and wanted.is_floating_point:
                kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


class Probe:
    """A copy of the network and its inputs, in double precision where it runs so."""

    def __init__(self, network: nn.Module, inputs: Inputs) -> None:
        try:
            double = copy_network(network).double()
            wide = tuple(_double(value) for value in inputs) if isinstance(inputs, tuple) else _double(inputs)
            self.network, self.inputs, self.tolerance = double, wide, TOLERANCE
            self.before = self.outputs(double)
        except Exception:
            # Not every forward runs in double precision: single, with its coarser tolerance, has to do.
            self.network, self.inputs, self.tolerance = copy_network(network), inputs, SINGLE_TOLERANCE
            self.before = self.outputs(self.network)
        if not all(bool(torch.isfinite(tensor).all()) for tensor in self.before):
            raise ConfigError("the network must give finite outputs on a batch of the data, but it does not.")

    def outputs(self, network: nn.Module) -> list[Tensor]:
        """What a network gives on the inputs."""
        with InDouble():  # type: ignore[no-untyped-call]
            return outputs(network, self.inputs)

    def problem(self, coupling: Coupling, groups: Iterable[Group], *, spend: bool = False) -> str | None:
        """What goes wrong when these groups grow, or ``None``; it may spend the probe, which is of no use then."""
        trial = self.network if spend else copy_network(self.network)
        generator = torch.Generator().manual_seed(0)
        try:
            widen(trial, coupling, {group.name: _trial(coupling, group, generator) for group in groups})
            after = self.outputs(trial)
        except Exception as error:
            return f"the network does not run once it is wider: {str(error).splitlines()[0] if str(error) else error!r}"
        change = largest_change(self.before, after)
        if change > self.tolerance:
            return f"the outputs change by {change:.1e} of their size when it is widened"
        return None


def _trial(coupling: Coupling, group: Group, generator: torch.Generator) -> Widening:
    """A split and a new unit, or the latter alone, loud on the side that is free: a mistake on the other is heard."""
    loud = "in" if group.norms else "out"
    shapes = {s.tensor: slot_shape(coupling, group, s.tensor, s.dim, 1) for s in group.slots if s.role == loud}
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    if group.norms:
        return Widening(num_new=1, outgoing=drawn)
    return Widening(sources=torch.tensor([group.size - 1]), num_new=1, incoming=drawn)


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def find_coupling(network: nn.Module, inputs: Inputs, *, check: bool = True) -> Coupling:
    """What widens together in a network, each group tried on a copy; those that did not pass are among the refusals.

    The inputs are a small batch that the network can be called with (two to eight examples are enough); it is left as
    it was. Without ``check`` no copy is grown and compared.

    Raises:
        ConfigError: if the network does not run on the inputs, turns tensors into Python numbers on the way, or gives
            outputs that are not finite.
    """
    coupling = trace(network, inputs)
    if not check or not coupling.groups:
        return coupling
    if Probe(network, inputs).problem(coupling, coupling.groups.values(), spend=True) is None:
        return coupling
    probe = Probe(network, inputs)
    guesses = _Guesses(network, coupling, probe)
    problems = {name: probe.problem(coupling, [group]) for name, group in coupling.groups.items()}
    for name, problem in problems.items():
        if problem is not None and not guesses.find(coupling.groups[name]):
            coupling.refuse(name, problem)
    # Groups that pass alone may still clash with each other; the later one of a pair gives way.
    if coupling.groups and (problem := probe.problem(coupling, coupling.groups.values())) is not None:
        kept: list[Group] = []
        for group in list(coupling.groups.values()):
            if probe.problem(coupling, [*kept, group]) is None:
                kept.append(group)
            else:
                coupling.refuse(group.name, f"it cannot grow together with the others: {problem}")
    return coupling


Attributes = dict[tuple[str, str], Layout]
"""Numbers of modules, by the module and the number's name, and the layouts that they are the size of."""

Family = tuple[str, str]
"""A number of a module in every block of a list: its name without the block's number, and the number's name."""


class _Guesses:
    """Numbers in the modules' attributes (``num_heads``) that must change with a group, found by trial.

    Blocks of a list are taken to mean the same by a number, so that it changes in all or in none of those that a group
    runs through. What was found for a group, or was not, is what is tried for its likes in other blocks.
    """

    def __init__(self, network: nn.Module, coupling: Coupling, probe: Probe) -> None:
        self._network, self._coupling, self._probe = network, coupling, probe
        self._known: dict[tuple[tuple[str, int, str], ...], tuple[Family, ...] | None] = {}

    def find(self, group: Group) -> bool:
        """Whether numbers were found with which a group can grow; the coupling keeps them then."""
        # The same tensors of another block of a list differ in its number only.
        likes = tuple((_without_number(slot.tensor), slot.dim, slot.role) for slot in group.slots)
        families = self._families(group)
        if likes in self._known:
            chosen = self._known[likes]
            return chosen is not None and set(chosen) <= set(families) and self._try(group, chosen, families)
        sets = itertools.chain.from_iterable(
            itertools.combinations(families, count) for count in range(1, len(families) + 1)
        )
        for chosen in itertools.islice(sets, MAX_GUESSES):
            if self._try(group, chosen, families):
                self._known[likes] = chosen
                return True
        self._known[likes] = None
        return False

    def _try(self, group: Group, chosen: tuple[Family, ...], families: dict[Family, Attributes]) -> bool:
        before = dict(self._coupling.attributes)
        for family in chosen:
            self._coupling.attributes.update(families[family])
        if self._probe.problem(self._coupling, [group]) is None:
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
