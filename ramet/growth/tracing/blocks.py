"""Which blocks of a network can be copied: each is tried, with a silent copy of it in a copy of the network."""

from __future__ import annotations

from typing import Any

from torch import nn

from ramet.errors import told
from ramet.growth.surgery.blocks import BlockSite, copy_blocks
from ramet.tracing.blocks import lists_of_blocks, possible_ends
from ramet.tracing.coupling import Coupling, Inputs, Refusal
from ramet.tracing.probing import Probe, copy_network, largest_change
from ramet.tracing.rules import tensors_in


def find_blocks(network: nn.Module, inputs: Inputs, coupling: Coupling) -> tuple[list[BlockSite], list[Refusal]]:
    """The blocks that a silent copy can be put behind without a change of the outputs, and the others, with the reason.

    Blocks are the members of a ``ModuleList`` or a ``Sequential`` of one class that are made of other modules. What
    holds such a list, as a stage of a network does, is not copied as a whole where its blocks can be.
    """
    found: list[BlockSite] = []
    refusals: list[Refusal] = []
    names = [name for members in lists_of_blocks(network).values() for name in members]
    probe = Probe(network, inputs) if names else None
    likes: dict[tuple[Any, ...], tuple[tuple[str, ...], bool]] = {}
    for name in names:
        assert probe is not None
        if any(block.name.startswith(f"{name}.") for block in found):
            continue
        block = network.get_submodule(name)
        like = (name.rpartition(".")[0], type(block), *((n, tuple(p.shape)) for n, p in block.named_parameters()))
        choices = [(ends, counted) for ends in possible_ends(network, coupling, name) for counted in (False, True)]
        if like in likes:
            choices = [likes[like]]
        problem = "none of its weights makes channels that the rest of the network holds"
        for ends, counted in choices:
            candidate = BlockSite(name, ends, counted)
            if not (problem := _problem(probe, candidate)):
                likes[like] = (ends, counted)
                found.append(candidate)
                break
        else:
            refusals.append(Refusal(name, problem))
    order = [name for name, _ in network.named_modules()]
    return sorted(found, key=lambda block: order.index(block.name)), refusals


def _problem(probe: Probe, block: BlockSite) -> str:
    """What goes wrong with a silent copy of a block behind it, or nothing.

    The copy must give back what comes in. The outputs alone would not tell: those of a deep network without training
    may hardly depend on what happens at its beginning.
    """
    trial = copy_network(probe.network)
    changes: list[float] = []

    def compare(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        changes.append(largest_change(tensors_in((args, kwargs))[:1], tensors_in(result)[:1]))

    try:
        (path,) = copy_blocks(trial, [block], [block.copied()])
        trial.get_submodule(path).register_forward_hook(compare, with_kwargs=True)
        change = largest_change(probe.before, probe.outputs(trial))
    except Exception as error:
        return f"the network does not run with a copy of it: {told(error)}"
    if len(changes) != 1:
        return f"a copy of it behind it runs {len(changes)} times"
    if changes[0] > probe.tolerance:
        return f"a silent copy of it changes what goes through it by {changes[0]:.1e} of its size"
    return f"the outputs change by {change:.1e} of their size with a silent copy of it" * (change > probe.tolerance)
