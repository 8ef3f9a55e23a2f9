"""AZ-NAS' expressivity and progressivity: how evenly features spread over their directions, and whether that grows."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy
from ramet.ranking.scores.blocks import features_of_blocks, rows_of


class Expressivity(TrainingFreeScore):
    """The entropy of the principal components of each block's features, summed over blocks.

    With the eigenvalues l_i of the covariance of a block's features over inputs and positions, divided by their sum,
    the entropy is minus the sum of l_i log l_i: highest where all directions are used alike.

    Departs from the reference, which feeds noise: the mini-batch is the user's.

    Args:
        network: any module whose parts keep maps of features; it is copied.
        x: the mini-batch, shape [inputs, channels, ...]; no labels are needed.

    Raises:
        ConfigError: fewer than two inputs, or inputs that are no floating-point numbers.

    Reference: Lee and Ham, "AZ-NAS: assembling zero-cost proxies for network architecture search", 2024.
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        self._x = check_inputs(x, "expressivity").detach().clone()
        self._network = scored_copy(network)

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity without any block."""
        entropies = self._entropies(*arguments)
        return sum(entropies) if entropies else -math.inf

    def _entropies(self, *arguments: Any) -> list[float]:
        with torch.no_grad():
            return [spread(rows_of(block)) for block in features_of_blocks(self._network, self._x, *arguments)]


class Progressivity(Expressivity):
    """The smallest growth of expressivity from a block to the next: features should become richer with depth.

    Args:
        network: any module whose parts keep maps of features; it is copied.
        x: the mini-batch, shape [inputs, channels, ...]; no labels are needed.
    """

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity with fewer than two blocks."""
        entropies = self._entropies(*arguments)
        return min((b - a for a, b in pairwise(entropies)), default=-math.inf)


def spread(rows: Tensor) -> float:
    """The entropy of the normalised eigenvalues of the covariance of rows, [samples, features]; 0 if all are equal."""
    centred = rows.double() - rows.double().mean(dim=0)
    eigenvalues = torch.linalg.eigvalsh(centred.T @ centred / len(centred)).clamp_min(0)
    if not float(eigenvalues.sum()) > 0:
        return 0.0
    shares = eigenvalues / eigenvalues.sum()
    return -float((shares * torch.log(shares + 1e-8)).sum())
