"""The coupling of a network, checked: a copy is grown for every group, and what changes its outputs is refused.

The rules of the trace cannot know everything. A forward may hold a size as a number, branch on its data, or use memory
behind the trace's back. So each group is tried on a copy, with one unit split and one new unit that is silent; the
outputs must stay the same. A group that fails is refused, with what went wrong as the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

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


class _Probe:
    """A copy of the network and its inputs, in double precision where it runs so."""

    def __init__(self, network: nn.Module, inputs: Inputs) -> None:
        try:
            double = copy_network(network).double()
            wide = tuple(_double(value) for value in inputs) if isinstance(inputs, tuple) else _double(inputs)
            self.before = outputs(double, wide)
            self.network, self.inputs, self.tolerance = double, wide, TOLERANCE
        except Exception:
            # Casts inside the forward: single precision, with its coarser tolerance, has to do.
            self.network, self.inputs, self.tolerance = copy_network(network), inputs, SINGLE_TOLERANCE
            self.before = outputs(self.network, inputs)
        if not all(bool(torch.isfinite(tensor).all()) for tensor in self.before):
            raise ConfigError("the network must give finite outputs on a batch of the data, but it does not.")

    def problem(self, coupling: Coupling, groups: Iterable[Group], *, spend: bool = False) -> str | None:
        """What goes wrong when these groups grow, or ``None``; it may spend the probe, which is of no use then."""
        trial = self.network if spend else copy_network(self.network)
        generator = torch.Generator().manual_seed(0)
        widenings = {}
        for group in groups:
            # The new unit is loud inside, so that an outgoing weight in the wrong place would be heard.
            shapes = {s.tensor: slot_shape(coupling, group, s.tensor, s.dim, 1) for s in group.slots if s.role == "out"}
            loud = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
            widenings[group.name] = Widening(sources=torch.tensor([group.size - 1]), num_new=1, incoming=loud)
        try:
            widen(trial, coupling, widenings)
            after = outputs(trial, self.inputs)
        except Exception as error:
            return f"the network does not run once it is wider: {str(error).splitlines()[0] if str(error) else error!r}"
        change = largest_change(self.before, after)
        if change > self.tolerance:
            return f"the outputs change by {change:.1e} of their size when it is widened"
        return None


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
    if _Probe(network, inputs).problem(coupling, coupling.groups.values(), spend=True) is None:
        return coupling
    probe = _Probe(network, inputs)
    problems = {name: probe.problem(coupling, [group]) for name, group in coupling.groups.items()}
    for name, problem in problems.items():
        if problem is not None and not _guess(network, coupling, coupling.groups[name], probe):
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


def _guess(network: nn.Module, coupling: Coupling, group: Group, probe: _Probe) -> bool:
    """Find numbers in the modules' attributes (``num_heads``) that must change with a group; keep them if it helps."""
    for chosen in itertools.islice(_choices(network, coupling, group), MAX_GUESSES):
        before = dict(coupling.attributes)
        coupling.attributes.update(chosen)
        if probe.problem(coupling, [group]) is None:
            return True
        coupling.attributes.clear()
        coupling.attributes.update(before)
    return False


def _choices(network: nn.Module, coupling: Coupling, group: Group) -> Iterator[dict[tuple[str, str], Layout]]:
    """Sets of attributes that may hold the group's size, the smallest sets first."""
    found: dict[tuple[str, str], Layout] = {}
    for hint in coupling.hints:
        for layout in _pieces(hint.layout, group.axis):
            for name, value in vars(network.get_submodule(hint.module)).items():
                if isinstance(value, int) and not isinstance(value, bool) and value == layout_size(layout):
                    found.setdefault((hint.module, name), layout)
    for count in range(1, len(found) + 1):
        for subset in itertools.combinations(found.items(), count):
            yield dict(subset)


def _pieces(layout: Layout, axis: Axis) -> list[Layout]:
    """The axis, every run of factors around it, and the whole dimension, if the axis is part of it."""
    pieces: list[Layout] = []
    for term in layout:
        if axis in term:
            place = term.index(axis)
            runs = [(i, j) for i in range(place + 1) for j in range(place + 1, len(term) + 1)]
            pieces += [(term[i:j],) for i, j in sorted(runs, key=lambda run: run[1] - run[0])]
    return [*pieces, layout] if pieces else []
