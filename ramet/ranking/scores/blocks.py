"""What the blocks of a network pass on to each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """The parts that a network calls one after the other: a supernet's stages, or the parts that a module is made of.

    Chains and lists are unrolled, to the first parts that are none.

    >>> chain = nn.Sequential(nn.Sequential(nn.Tanh(), nn.ReLU()), nn.Linear(1, 1))
    >>> [type(block).__name__ for block in blocks_of(chain)]
    ['Tanh', 'ReLU', 'Linear']
    """
    stages = getattr(network, "stages", None)
    parts = list(stages) if isinstance(stages, nn.ModuleList) else list(network.children())
    found: list[nn.Module] = []
    for part in parts:
        found += blocks_of(part) if isinstance(part, nn.Sequential | nn.ModuleList) else [part]
    return found


def features_of_blocks(network: nn.Module, x: Tensor, *arguments: Any) -> list[Tensor]:
    """What each block gives, in the order of calls, as far as it is a map of features, [inputs, channels, ...].

    The network's own output, and all that comes after positions are pooled, is none.
    """
    found: list[Tensor] = []

    def note(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim >= 3:
            found.append(output)

    hooks = [block.register_forward_hook(note) for block in blocks_of(network)]
    try:
        network(x, *arguments)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def rows_of(features: Tensor) -> Tensor:
    """Features as rows, one for each input and position: [inputs, channels, ...] to [rows, channels]."""
    return torch.movedim(features, 1, -1).flatten(0, -2)
