"""A network run twice, before and after something was done to it: copies, in double precision where it runs so."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ramet.errors import ConfigError
from ramet.tracing.coupling import Inputs, call, evaluating, returned

TOLERANCE = 1e-7
"""Largest relative change of an output that is put down to rounding, in double precision."""

SINGLE_TOLERANCE = 1e-4
"""The same in single precision, for networks that do not run in double."""


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


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def copy_network(network: nn.Module) -> nn.Module:
    """What ``copy.deepcopy`` gives, in two thirds of the time for small networks.

    A module has some fifteen dictionaries for hooks, nearly always empty, and copying them one by one takes longer than
    copying the weights: new ones are handed to the copy instead.

    >>> network = nn.Linear(2, 1)
    >>> twin = copy_network(network)
    >>> bool((twin.weight == network.weight).all()), twin.weight is network.weight
    (True, False)
    """
    known: dict[int, Any] = {}
    for module in network.modules():
        for value in vars(module).values():
            if type(value) in (dict, OrderedDict) and not value:
                known[id(value)] = type(value)()
    return copy.deepcopy(network, known)
