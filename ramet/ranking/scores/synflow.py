"""Synaptic flow: how much flows through a network of magnitudes."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.errors import ConfigError
from ramet.ranking.scores.base import TrainingFreeScore


class Synflow(TrainingFreeScore):
    """How much flows through a network from its input to its output: the synaptic flow.

    With every weight replaced by its magnitude and an input of ones, let R be the sum of the outputs. The score is the
    logarithm of the sum of |theta dR/dtheta|, over all parameters that the output depends on. It needs no data.

    As in Abdelfattah et al., batch norms are passed through, because they would undo what the score measures. All is
    computed in double precision: the products of many layers leave the range of single precision.

    Args:
        network: any module; it is copied.
        input_shape: the shape of one input without its batch, such as (3, 32, 32).

    Raises:
        ConfigError: if ``input_shape`` is not made of positive numbers.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -1.0]]))
    >>> round(math.exp(Synflow(layer, (2,))()), 6)
    4.0

    Reference:
        Tanaka et al., "Pruning neural networks without any data by iteratively conserving synaptic flow", 2020;
        Abdelfattah et al., "Zero-cost proxies for lightweight NAS", 2021.
    """

    def __init__(self, network: nn.Module, input_shape: Sequence[int]) -> None:
        shape = tuple(input_shape)
        if not shape or any(size < 1 for size in shape):
            raise ConfigError(f"an input shape is made of positive numbers, but got {shape}.")
        self._network = copy.deepcopy(network).double().eval()
        for module in self._network.modules():
            if isinstance(module, _BatchNorm):
                module.forward = _pass_through  # type: ignore[method-assign, assignment]
        self._params = [param.requires_grad_() for param in self._network.parameters()]
        with torch.no_grad():
            for param in self._params:
                param.abs_()
        device = self._params[0].device if self._params else None
        self._ones = torch.ones(1, *shape, dtype=torch.float64, device=device)

    @classmethod
    def at(cls, network: nn.Module, x: Tensor) -> Synflow:
        """How much flows through a network from its input to its output; it needs no data."""
        return cls(network, x.shape[1:])

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(ones, *arguments)``; minus infinity where nothing flows."""
        flow = self._network(self._ones, *arguments).sum()
        if not flow.requires_grad:
            return -math.inf
        slopes = torch.autograd.grad(flow, self._params, allow_unused=True)
        total = sum(
            float((param.detach() * slope).sum())
            for param, slope in zip(self._params, slopes, strict=True)
            if slope is not None
        )
        return math.log(total) if total > 0 else -math.inf


def _pass_through(x: Tensor) -> Tensor:
    return x
