"""The seam of scores of untrained networks."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ramet.errors import ConfigError


class TrainingFreeScore(ABC):
    """A score of an untrained network, highest for the best; it works on any module that takes images.

    Made once for a network, by a registry as ``Score(network, x)``, it scores as many architectures as are asked for.
    One that needs labels asks for ``y``, too. An author copies the network at construction and writes ``__call__``.
    """

    @abstractmethod
    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where it is not defined."""


def check_inputs(x: Tensor, what: str, *, fewest: int = 2) -> Tensor:
    """Inputs of floating-point numbers, or a ``ConfigError`` that says for what they are needed."""
    if len(x) < fewest or not x.is_floating_point():
        raise ConfigError(
            f"{what} needs at least {fewest} inputs of floating-point numbers, but got {len(x)} of {x.dtype}."
        )
    return x


def scored_copy(network: nn.Module, *, through_norms: bool = False) -> nn.Module:
    """A copy whose batch norms use the statistics of the batch that they see, as in a first step; dropout is off.

    No gradient goes through the statistics, so that samples do not depend on each other, unless ``through_norms``. In
    either case nothing is remembered.
    """
    made = copy.deepcopy(network).eval()
    for module in made.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        if isinstance(module, _BatchNorm):
            module.forward = partial(_normalise, module, through_norms)  # type: ignore[method-assign]
    return made


def _normalise(norm: _BatchNorm, through: bool, x: Tensor) -> Tensor:
    if through:
        return batch_norm(x, None, None, norm.weight, norm.bias, True, 0.0, norm.eps)
    with torch.no_grad():
        variance, mean = torch.var_mean(x, [0, *range(2, x.ndim)], correction=0)
    return batch_norm(x, mean, variance, norm.weight, norm.bias, False, 0.0, norm.eps)
