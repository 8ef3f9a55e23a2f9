"""The covariance of the Jacobian: how differently a network treats different inputs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy

EIGENVALUE_OFFSET = 1e-5
"""What keeps the logarithm of an eigenvalue finite, k in the reference."""


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
        check_inputs(x, "a Jacobian")
        self._network = scored_copy(network)
        for param in self._network.parameters():
            param.requires_grad_(False)  # only the gradient with respect to the input is wanted
        self._x = x.detach().clone().requires_grad_()

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where an input has no influence."""
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
