"""The coupling of a network, checked: a copy is grown for every group, and what changes its outputs is refused.

The rules of the trace cannot know everything. A forward may hold a size as a number, branch on its data, or use memory
behind the trace's back. So each group is tried on a copy, with one unit split and one new unit that is silent; the
outputs must stay the same. A group that fails is refused, with what went wrong as the reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from ramet.errors import told
from ramet.growth.surgery.widening import Widening, slot_shape
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.memory import Memory
from ramet.tracing.coupling import Coupling, Group, Inputs, trace
from ramet.tracing.numbers import Numbers
from ramet.tracing.probing import Probe, copy_network, largest_change


def growth_problem(probe: Probe, coupling: Coupling, groups: Iterable[Group], *, spend: bool = False) -> str | None:
    """What goes wrong when these groups grow, or ``None``; it may spend the probe, which is of no use then."""
    trial = probe.network if spend else copy_network(probe.network)
    generator = torch.Generator().manual_seed(0)
    try:
        widen(trial, coupling, {group.name: _trial(coupling, group, generator) for group in groups})
        after = probe.outputs(trial)
    except Exception as error:
        return f"the network does not run once it is wider: {told(error)}"
    change = largest_change(probe.before, after)
    if change > probe.tolerance:
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


def find_coupling(network: nn.Module, inputs: Inputs, *, check: bool = True, memory: Memory | None = None) -> Coupling:
    """What widens together in a network, each group tried on a copy; those that did not pass are among the refusals.

    The inputs are a small batch that the network can be called with (two to eight examples are enough); it is left as
    it was. Without ``check`` no copy is grown and compared. With the ``memory`` of earlier looks at the same network,
    as it was before it grew, what they found by trial is taken from there, and kept there for the next.

    Raises:
        ConfigError: if the network does not run on the inputs, turns tensors into Python numbers on the way, or gives
            outputs that are not finite.
    """
    coupling = trace(network, inputs)
    if not check or not coupling.groups:
        return coupling
    probes: list[Probe] = []

    def problem_of(groups: Iterable[Group]) -> str | None:
        if not probes:
            probes.append(Probe(network, inputs))
        return growth_problem(probes[0], coupling, groups)

    memory = Memory() if memory is None else memory
    numbers = Numbers(network, coupling, lambda group: problem_of([group]))
    memory.recall(coupling, numbers)
    together = coupling.groups.values()
    if not together or growth_problem(Probe(network, inputs), coupling, together, spend=True) is None:
        return coupling
    problems = {name: problem_of([group]) for name, group in coupling.groups.items()}
    for name, problem in problems.items():
        if problem is not None:
            found = numbers.find(coupling.groups[name])
            memory.keep(coupling.groups[name], problem if found is None else found)
            if found is None:
                coupling.refuse(name, problem)
    # Groups that pass alone may still clash with each other; the later one of a pair gives way.
    if coupling.groups and (problem := problem_of(coupling.groups.values())) is not None:
        kept: list[Group] = []
        for group in list(coupling.groups.values()):
            if problem_of([*kept, group]) is None:
                kept.append(group)
            else:
                coupling.refuse(group.name, f"it cannot grow together with the others: {problem}")
    return coupling
