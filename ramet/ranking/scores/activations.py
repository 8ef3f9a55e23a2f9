"""Which units of a network are active at a mini-batch, whatever way its layers call their activation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
ACTIVATIONS = (
    _aten.relu, _aten.relu_, _aten.leaky_relu, _aten.leaky_relu_, _aten.hardtanh, _aten.hardtanh_, _aten.gelu,
    _aten.silu, _aten.silu_, _aten.elu, _aten.elu_, _aten.hardswish, _aten.hardswish_, _aten.tanh, _aten.sigmoid,
)  # fmt: skip
"""Functions that bend at or near zero; a unit counts as active where its input is positive."""


class ActiveUnits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the block, every activation of a network is noted: ``patterns`` has a [samples, units] of booleans each.

    It sees the functions that torch executes, so that a layer, ``functional.relu`` and ``x.relu()`` are the same to it.

    >>> with ActiveUnits() as seen:
    ...     _ = torch.nn.functional.relu(torch.tensor([[1.0, -2.0]]))
    >>> seen.patterns[0].tolist()
    [[True, False]]
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.patterns: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Note the signs of an activation's input, and go on."""
        if func._overloadpacket in ACTIVATIONS and args[0].ndim > 1:
            self.patterns.append((args[0] > 0).flatten(1))
        return func(*args, **(kwargs or {}))


def active_units(network: nn.Module, x: Tensor, *arguments: Any) -> list[Tensor]:
    """The patterns of ``network(x, *arguments)``, [samples, units] of booleans for each activation."""
    with torch.no_grad(), ActiveUnits() as seen:
        network(x, *arguments)
    patterns: list[Tensor] = seen.patterns
    return patterns
