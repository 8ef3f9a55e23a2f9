"""What a table of architectures checks of each: what grows in it, exactly, with the optimizer's state."""

from __future__ import annotations

import copy
import re
from collections import Counter

import torch
from torch import nn

from ramet.growth.surgery.blocks import copy_blocks
from ramet.growth.surgery.widening import Widening, slot_shape
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.blocks import find_blocks
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.probing import InDouble, largest_change, outputs
from ramet.training import output_of

ROUNDING = 1e-10
"""Relative change that double precision (2e-16) allows: sums of a hundred terms in a network a thousand deep."""

REASONS = {
    "a norm behind a norm": "normalises what another layer norm made",
    "channels scaled one by one": "treats these channels one by one",
    "one group of a group norm": "keeps its groups whole",
}
"""Why the channels of a stream do not grow, in the words of the documentation's table."""


def widenings_of(coupling, generator):
    """Every group gets a split and two new units, or these alone, loud on the side that is free."""
    widenings = {}
    for group in coupling.groups.values():
        loud = "in" if group.norms else "out"
        drawn = {
            slot.tensor: torch.randn(slot_shape(coupling, group, slot.tensor, slot.dim, 2), generator=generator)
            for slot in group.slots
            if slot.role == loud
        }
        sources = torch.tensor([] if group.norms else [0], dtype=torch.long)
        free = {"outgoing": drawn} if group.norms else {"incoming": drawn}
        widenings[group.name] = Widening(sources=sources, num_new=2, **free)
    return widenings


def loss_of(network, inputs):
    with InDouble():
        return output_of(network(*inputs) if isinstance(inputs, tuple) else network(inputs)).square().mean()


def exactly(network, inputs):
    with InDouble():
        return outputs(network, inputs)


def row_of(coupling, blocks):
    """What the table has of an architecture."""
    kinds = Counter(group.kind for group in coupling.groups.values())
    refused = " ".join(refusal.reason for refusal in coupling.refusals)
    why = [words for words, reason in REASONS.items() if reason in refused]
    return kinds["units"], kinds["blocks"], kinds["stream"], len(blocks), ", ".join(why)


def check_exact_growth(network, inputs, row):
    """All that can grow in a network is ``row``, and all of it together keeps the function; nothing goes unnamed."""
    coupling = find_coupling(network, inputs)
    blocks, refused = find_blocks(network, inputs, coupling)
    assert row_of(coupling, blocks) == row
    assert all(refusal.reason for refusal in [*coupling.refusals, *refused])
    _check_nothing_is_left_out(network, coupling)

    wide = copy.deepcopy(network).double()
    inputs = tuple(map(_double, inputs)) if isinstance(inputs, tuple) else _double(inputs)
    before = exactly(wide, inputs)
    optimizer = torch.optim.AdamW(wide.parameters(), lr=0.0, weight_decay=0.0)
    loss_of(wide, inputs).backward()
    optimizer.step()
    states = {parameter_name: dict(optimizer.state.get(p, {})) for parameter_name, p in wide.named_parameters()}
    plan = widen(wide, coupling, widenings_of(coupling, torch.Generator().manual_seed(0)), optimizer=optimizer)
    assert largest_change(before, exactly(wide, inputs)) < ROUNDING
    for parameter_name, parameter in wide.named_parameters():
        old, new = states[parameter_name], optimizer.state.get(parameter, {})
        assert old.keys() == new.keys()  # a weight that takes no part has none
        for key, power in (("exp_avg", 1.0), ("exp_avg_sq", 2.0)):
            if old:
                is_grown = parameter_name in plan.tensors
                expected = plan.grow_state(parameter_name, old[key], power) if is_grown else old[key]
                assert torch.equal(new[key], expected) and new[key].shape == parameter.shape

    copy_blocks(wide, blocks, [block.copied() for block in blocks], optimizer=optimizer)
    assert largest_change(before, exactly(wide, inputs)) < ROUNDING
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in wide.parameters()}
    optimizer.zero_grad()
    loss_of(wide, inputs).backward()
    optimizer.step()


def _double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _check_nothing_is_left_out(network, coupling):
    """Every layer's channels grow, or it is said why they do not."""
    named = {re.sub(r"#\d+$", "", refusal.name) for refusal in coupling.refusals}
    grown = {slot.tensor for group in coupling.groups.values() for slot in group.slots if slot.role != "in"}
    for tensor, aliases in coupling.aliases.items():
        module = network.get_submodule(tensor.rpartition(".")[0])
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd | nn.Embedding) and tensor.endswith("weight"):
            paths = {alias.rpartition(".")[0] for alias in aliases}
            # Layers that make the same channels as another are named by the first of them.
            ties = {other.rpartition(".")[0] for other in _tied(coupling, tensor)}
            assert tensor in grown or (paths | ties | set(aliases)) & named, f"{tensor} is neither grown nor named"


def _tied(coupling, tensor):
    axes = {axis for layout in coupling.layouts[tensor] for term in layout for axis in term}
    return {
        other
        for other, layouts in coupling.layouts.items()
        if axes & {axis for layout in layouts for term in layout for axis in term}
    }
