"""How large a network is: parameters, multiply-adds, layers; the simplest scores, and the ones to beat."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import ProductCounter
from ramet.ranking.scores.base import TrainingFreeScore


class Parameters(TrainingFreeScore):
    """How many values the layers hold that a forward pass calls.

    Args:
        network: any module; it is copied.
        x: a mini-batch, of which one input is used.

    >>> Parameters(nn.Linear(3, 2), torch.zeros(1, 3))()
    8.0
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        self._network, self._x = copy.deepcopy(network).eval(), x[:1]

    def __call__(self, *arguments: Any) -> float:
        """The values of ``network(x, *arguments)``; one that several layers share counts once."""
        return float(sum({id(p): p.numel() for layer in self._called(*arguments) for p in _own(layer)}.values()))

    def _called(self, *arguments: Any) -> list[nn.Module]:
        """The layers with values of their own that the forward pass calls."""
        called: dict[nn.Module, None] = {}
        layers = [module for module in self._network.modules() if _own(module)]
        hooks = [layer.register_forward_pre_hook(lambda layer, _: called.setdefault(layer)) for layer in layers]
        try:
            with torch.no_grad():
                self._network(self._x, *arguments)
        finally:
            for hook in hooks:
                hook.remove()
        return list(called)


class Layers(Parameters):
    """How many layers with a matrix of weights a forward pass calls: convolutions and linear layers.

    Args:
        network: any module; it is copied.
        x: a mini-batch, of which one input is used.

    >>> Layers(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)), torch.zeros(1, 3))()
    2.0
    """

    def __call__(self, *arguments: Any) -> float:
        """The layers of ``network(x, *arguments)``."""
        return float(sum(any(param.ndim > 1 for param in _own(layer)) for layer in self._called(*arguments)))


class MultiplyAdds(TrainingFreeScore):
    """The multiply-adds of a forward pass for one input, as ``ramet.costs.count_flops`` counts them.

    Args:
        network: any module; it is copied.
        x: a mini-batch, of which one input is used.

    >>> MultiplyAdds(nn.Linear(3, 2), torch.zeros(1, 3))()
    6.0
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        self._network, self._x = copy.deepcopy(network).eval(), x[:1]

    def __call__(self, *arguments: Any) -> float:
        """The multiply-adds of ``network(x, *arguments)``."""
        with torch.no_grad(), ProductCounter() as counter:
            self._network(self._x, *arguments)
        return float(counter.multiply_adds)


def _own(module: nn.Module) -> list[nn.Parameter]:
    return list(module.parameters(recurse=False))
