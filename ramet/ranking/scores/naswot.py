"""NASWOT: how well linear regions tell the inputs of a mini-batch apart."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ramet.ranking.scores.activations import active_units
from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy


class Naswot(TrainingFreeScore):
    """The logarithm of the determinant of how alike the activation patterns of inputs are.

    With the binary code c_i of input i, a bit for each unit that is active, K_ij is the number of units in which c_i
    and c_j agree. The score is log |det K|: highest where every input has a linear region of its own.

    Args:
        network: any module; it is copied.
        x: the mini-batch, shape [inputs, ...]; no labels are needed.

    Raises:
        ConfigError: fewer than two inputs, or inputs that are no floating-point numbers.

    Reference: Mellor et al., "Neural architecture search without training", 2021.
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        self._x = check_inputs(x, "NASWOT").detach().clone()
        self._network = scored_copy(network)

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where two inputs have the same code."""
        kernel = torch.zeros(len(self._x), len(self._x), dtype=torch.float64)
        for pattern in active_units(self._network, self._x, *arguments):
            code = pattern.cpu().float()  # counts of up to 2^24 units are exact
            kernel += code @ code.T + (1 - code) @ (1 - code).T
        sign, logarithm = torch.linalg.slogdet(kernel)
        value = float(logarithm)
        return value if float(sign) != 0 and math.isfinite(value) else -math.inf
