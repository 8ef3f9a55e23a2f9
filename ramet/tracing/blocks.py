"""Blocks that a network holds one after another, and where the residual branch of one ends."""

from __future__ import annotations

import torch
from torch import nn

from ramet.tracing.axes import Axis
from ramet.tracing.coupling import Coupling

LISTS = (nn.ModuleList, nn.Sequential)
"""What holds blocks one after another."""


def lists_of_blocks(network: nn.Module) -> dict[str, list[str]]:
    """The names of the blocks in each list that holds some, inner lists first: modules of one class, made of others.

    >>> layer = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> lists_of_blocks(nn.ModuleDict({"body": nn.ModuleList([layer, nn.Sequential(nn.Linear(2, 2))])}))
    {'body': ['body.0', 'body.1']}
    """
    found: dict[str, list[str]] = {}
    for name, module in network.named_modules():
        if isinstance(module, LISTS) and not is_wrapper(module):
            children = dict(module.named_children())
            is_list = len({type(child) for child in children.values()}) == 1 and all(map(str.isdigit, children))
            if is_list and all(map(_is_block, children.values())):
                found[name] = [f"{name}.{key}".lstrip(".") for key in children]
    return dict(sorted(found.items(), key=lambda item: -len(item[0].split(".")) if item[0] else 0))


def _is_block(module: nn.Module) -> bool:
    """Whether a module is made of others and has weights; a layer that was added is no block."""
    inside = any(True for _ in module.children()) and any(True for _ in module.parameters())
    return inside and not is_new_layer(module)


def possible_ends(network: nn.Module, coupling: Coupling, block: str) -> list[tuple[str, ...]]:
    """Weights that a block's branch may end in: what makes channels that others hold too, or else what scales them."""
    prefix = f"{block}."
    trained = {name for name, _ in network.named_parameters()}
    outside: set[Axis] = set()
    for name, layouts in coupling.layouts.items():
        if not name.startswith(prefix):
            outside |= {axis for layout in layouts for term in layout for axis in term}
    makers, scales = [], []
    for name, layouts in coupling.layouts.items():
        if not name.startswith(prefix) or name not in trained:
            continue
        for dim, layout in enumerate(layouts):
            role = coupling.roles.get((name, dim))
            if any(axis in outside for term in layout for axis in term):
                if role == "out":
                    makers.append(name.removeprefix(prefix))
                elif role == "scale":
                    scales.append(name.removeprefix(prefix))
    return [tuple(dict.fromkeys(ends)) for ends in (makers, scales) if ends]


def is_new_layer(module: nn.Module) -> bool:
    """Whether a module is a layer that was added. Its parts tell: a deep copy loses the name of a graph's class."""
    parts = {name for name, _ in module.named_children()}
    return isinstance(module, torch.fx.GraphModule) and parts == {"inner", "norm", "activation", "outer"}


def is_wrapper(module: nn.Module) -> bool:
    """Whether a module is the sequence that a deepening put around another, with the layers behind it."""
    return isinstance(module, nn.Sequential) and len(module) > 1 and all(map(is_new_layer, list(module)[1:]))
