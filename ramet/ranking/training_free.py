"""Scores of an untrained network: what a ranking by shared weights has to beat, beside the parameter count.

Both work on any module that takes images or other numbers, so on a child by itself as on a path of a supernet, whose
architecture is then an argument. A network is copied once and then scores as many architectures as are asked for; it
is never changed itself.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ramet.errors import ConfigError
from ramet.ranking.metrics import Floats, check_scores, ranks
from ramet.training import reestimated_batch_norm

EIGENVALUE_OFFSET = 1e-5
"""What keeps the logarithm of an eigenvalue finite, k in the reference."""


class TrainingFreeScore(ABC):
    """A score of an untrained network, highest for the best; it works on any module that takes images.

    Made once for a network, by a registry as ``Score(network, x)``, it scores as many architectures as are asked for.
    An author copies the network at construction and writes ``__call__``.
    """

    @abstractmethod
    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where it is not defined."""


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


class JacobianCovariance(TrainingFreeScore):
    """How differently a network treats different inputs, from the Jacobian of its output at a mini-batch.

    Row i of J is the gradient of the summed outputs of input i with respect to it. With the eigenvalues s_i of the
    correlation matrix of the rows, the score is minus the sum of log(s_i + k) + 1 / (s_i + k), which is highest, that
    is minus the number of inputs, where all rows are uncorrelated.

    Batch norms use the statistics of the mini-batch, as they would in the first step of a training; dropout is off.

    Departs from the reference, whose gradient also goes through these statistics. Where nothing but a batch norm stands
    before the pooling, as in ``Cells64`` and ``Darts``, the sum of its outputs does not depend on the inputs then: such
    a Jacobian is zero, and its score would be one of rounding.

    Args:
        network: any module; it is copied.
        x: the mini-batch, shape [inputs, ...]; no labels are needed.

    Raises:
        ConfigError: fewer than two inputs, or inputs that are no floating-point numbers, such as words.

    Reference: Mellor et al., "Neural architecture search without training", first version, 2020.
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        if len(x) < 2 or not x.is_floating_point():
            raise ConfigError(
                f"a Jacobian needs at least 2 inputs of floating-point numbers, but got {len(x)} of {x.dtype}."
            )
        self._network = copy.deepcopy(network).eval()
        for module in self._network.modules():
            if isinstance(module, _DropoutNd):
                module.p = 0.0  # off also while statistics are taken
        for param in self._network.parameters():
            param.requires_grad_(False)  # only the gradient with respect to the input is wanted
        self._x = x.detach().clone().requires_grad_()

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where an input has no influence."""
        with reestimated_batch_norm(self._network, [self._x.detach()], *arguments):
            total = self._network(self._x, *arguments).sum()
            if not total.requires_grad:
                return -math.inf
            slope = torch.autograd.grad(total, self._x)[0]
        return jacobian_score(slope.flatten(1).double())


def jacobian_score(jacobian: Tensor) -> float:
    """The score of ``JacobianCovariance`` from the Jacobian, shape [inputs, values of an input]."""
    centred = jacobian - jacobian.mean(dim=1, keepdim=True)
    norms = centred.norm(dim=1, keepdim=True)
    if not bool((norms > 0).all() & torch.isfinite(norms).all()):
        return -math.inf
    rows = centred / norms
    eigenvalues = torch.linalg.eigvalsh(rows @ rows.T).clamp_min(0) + EIGENVALUE_OFFSET  # [inputs]
    return -float((eigenvalues.log() + 1 / eigenvalues).sum())


def combine_ranks(scores: Iterable[Floats | Sequence[float]]) -> Floats:
    """The mean of several rankings, each with the same weight: higher is better, as in what it is made of.

    Scores of different kinds have nothing in common but their order, so that only ranks can be added. Equal weights
    need no truth to be chosen by. Each is [children]; minus infinity is allowed, NaN is not. Gives minus the mean rank,
    ties at their mean rank.

    >>> combine_ranks([[0.1, 0.5, 0.3], [7.0, 9.0, 8.0]]).tolist()
    [-3.0, -1.0, -2.0]
    """
    placed = [ranks(check_scores(values, ndim=1)) for values in scores]
    if not placed or len({len(row) for row in placed}) != 1:
        raise ConfigError(f"rankings must score the same children, but score {[len(row) for row in placed]}.")
    mean: Floats = -sum(placed) / len(placed)  # type: ignore[assignment]
    return mean


def _pass_through(x: Tensor) -> Tensor:
    return x
