"""Which channels, heads, blocks and kernels of a network can be left out; each is tried on a copy.

The trace that growth reads (``ramet.tracing``) says which tensors hold a group's units. A group is taken if another
order of its units changes nothing, and if the network without half of them gives what the whole one gives when nothing
reads these; where norms run over the units the latter does not hold, and the smaller network must run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, told
from ramet.spaces.slicing.cuts import Setting, SliceCut
from ramet.spaces.slicing.ordering import reorder, units_of
from ramet.tracing.blocks import lists_of_blocks, possible_ends
from ramet.tracing.coupling import Coupling, Group, Inputs, Refusal, trace
from ramet.tracing.numbers import Numbers
from ramet.tracing.probing import Probe, copy_network, largest_change
from ramet.tracing.rules import tensors_in


def find_units(network: nn.Module, inputs: Inputs) -> tuple[Coupling, Probe]:
    """The groups whose units can be left out, and what tries are made with; the others are among the refusals."""
    coupling = trace(network, inputs)
    probe = Probe(network, inputs)
    numbers = Numbers(network, coupling, lambda group: cutting_problem(probe, coupling, group))
    for name, group in list(coupling.groups.items()):
        problem = "it has one unit" if group.size < 2 else cutting_problem(probe, coupling, group)
        if problem is not None and (group.size < 2 or not numbers.find(group)):
            coupling.refuse(name, problem)
    return coupling, probe


def cutting_problem(probe: Probe, coupling: Coupling, group: Group) -> str | None:
    """What goes wrong when a group loses its last units, or ``None``."""
    kept = max(1, group.size // 2)
    turned, cut, masked = (copy_network(probe.network) for _ in range(3))
    try:
        reorder(turned, coupling, {group.name: torch.arange(group.size).flip(0)})
        change = largest_change(probe.before, probe.outputs(turned))
        if change > probe.tolerance:
            return f"the outputs change by {change:.1e} of their size with its units in another order"
        SliceCut(cut, coupling, Setting({group.name: kept})).carve(cut)
        after = probe.outputs(cut)
        if group.norms:  # they see fewer channels, so that no network of the whole size gives the same
            return None if all(bool(torch.isfinite(tensor).all()) for tensor in after) else "a smaller one overflows"
        mask_units(masked, coupling, group, kept)
        change = largest_change(probe.outputs(masked), after)
    except Exception as error:
        return f"the network does not run once it is narrower: {told(error)}"
    return None if change <= probe.tolerance else f"the outputs are off by {change:.1e} of their size without its units"


def mask_units(network: nn.Module, coupling: Coupling, group: Group, kept: int) -> None:
    """Let nothing read the units of a group behind the first ``kept``, in place: the slow twin of cutting them off."""
    tensors = dict(network.named_parameters())
    with torch.no_grad():
        for slot in group.slots:
            if slot.role == "in":
                dead = units_of(coupling, group, slot.tensor, slot.dim) >= kept
                places = dead.nonzero()[:, 0].to(tensors[slot.tensor].device)
                tensors[slot.tensor].index_fill_(slot.dim, places, 0.0)


def is_heads(coupling: Coupling, group: Group) -> bool:
    """Whether units are heads of an attention: blocks of channels that are no groups of a group norm."""
    of_norms = [layout for (_, name), layout in coupling.attributes.items() if name == "num_groups"]
    return group.is_block and not any(group.axis in term for layout in of_norms for term in layout)


def is_inner(coupling: Coupling, group: Group) -> bool:
    """Whether units lie within those of another group: queries that share a key, of which whole keys are cut."""
    others = {other.axis for other in coupling.groups.values() if other.is_block and other is not group}
    for slot in group.slots:
        for term in coupling.layouts[slot.tensor][slot.dim]:
            if group.axis in term and any(axis in others for axis in term[: term.index(group.axis)]):
                return True
    return False


def find_removable(
    network: nn.Module, coupling: Coupling, probe: Probe
) -> tuple[dict[str, list[str]], list[Refusal], dict[str, float]]:
    """Residual blocks that keep the shape, by the list that holds them; the others; and how much each of them changes.

    A block is residual if it gives back what comes in once the weights that its branch ends in are zero. How much it
    changes is the norm of what it adds by that of what comes in.
    """
    found: dict[str, list[str]] = {}
    refusals: list[Refusal] = []
    changes: dict[str, float] = {}
    for holder, members in lists_of_blocks(network).items():
        for name in members:
            if any(other.startswith(f"{name}.") for blocks in found.values() for other in blocks):
                continue
            problem, change = _removal(probe, coupling, name)
            if problem is None:
                found.setdefault(holder, []).append(name)
                changes[name] = change
            else:
                refusals.append(Refusal(name, problem))
    return found, refusals, changes


def _removal(probe: Probe, coupling: Coupling, name: str) -> tuple[str | None, float]:
    """Why a block cannot be left out, or ``None``, and how much it changes what goes through it."""
    try:
        runs = list(_through(probe, copy_network(probe.network), name))
        if len(runs) != 1:
            return f"it runs {len(runs)} times", 0.0
        before, after = runs[0]
        if before.shape != after.shape:
            return f"it makes {list(after.shape[1:])} of {list(before.shape[1:])}", 0.0
        if not any(_is_silent(probe, name, ends) for ends in possible_ends(probe.network, coupling, name)):
            return "it is not residual: it does not give back what comes in where its branch ends in zeros", 0.0
        cut = SliceCut(probe.network, coupling, Setting(skipped=frozenset({name})))
        lent, carved = copy_network(probe.network), copy_network(probe.network)
        with cut.applied(lent):
            expected = probe.outputs(lent)
        cut.carve(carved)
        if largest_change(expected, probe.outputs(carved)) > probe.tolerance:
            return "the network without it is not the network in which it passes on what comes in", 0.0
    except Exception as error:
        return f"the network does not run without it: {told(error)}", 0.0
    return None, float((after - before).norm() / before.norm().clamp_min(1e-30))


def _through(probe: Probe, network: nn.Module, name: str) -> Iterator[tuple[Tensor, Tensor]]:
    """The first tensors that go into and come out of a block, for each of its runs."""
    runs: list[tuple[Tensor, Tensor]] = []

    def note(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        runs.append((tensors_in((args, kwargs))[0].clone(), tensors_in(result)[0].clone()))

    network.get_submodule(name).register_forward_hook(note, with_kwargs=True)
    probe.outputs(network)
    yield from runs


def _is_silent(probe: Probe, name: str, ends: tuple[str, ...]) -> bool:
    trial = copy_network(probe.network)
    with torch.no_grad():
        for end in ends:
            trial.get_parameter(f"{name}.{end}").zero_()
    ((before, after),) = _through(probe, trial, name)
    return largest_change([before], [after]) <= probe.tolerance


def find_kernels(network: nn.Module) -> dict[str, int]:
    """The convolutions whose kernels can shrink to their centres, with the size of a side."""
    found = {}
    for name, module in network.named_modules():
        if isinstance(module, nn.modules.conv._ConvNd) and not module.transposed:
            (size, *others), padding = module.kernel_size, module.padding
            is_same = isinstance(padding, tuple) and all(pad == size // 2 for pad in padding)
            is_centred = all(other == size for other in others) and size % 2 == 1 and is_same
            if size > 1 and is_centred and set(module.dilation) == {1} and module.padding_mode == "zeros":
                found[name] = size
    return found


def check_example(example: object) -> Tensor:
    """A batch of inputs, or a ``ConfigError``."""
    if not isinstance(example, Tensor) or example.ndim < 2 or len(example) < 2:
        shape = list(example.shape) if isinstance(example, Tensor) else type(example).__name__
        raise ConfigError(f"an example is a batch of at least two inputs as one tensor, but got {shape}.")
    return example
