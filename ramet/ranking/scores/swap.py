"""SWAP: how many different patterns the units of a network show over a mini-batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ramet.ranking.scores.activations import active_units
from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy

BITS = 62
"""Inputs whose bits go into one integer."""


class Swap(TrainingFreeScore):
    """The number of different sample-wise activation patterns.

    The pattern of a unit says at which of the inputs it is active. The score is the number of patterns that differ
    among all units of all layers: it grows with what the network can express.

    The reference can also weight it by the number of parameters around a size that one names; this is the plain score.

    Args:
        network: any module; it is copied.
        x: the mini-batch, shape [inputs, ...]; no labels are needed.

    Raises:
        ConfigError: fewer than two inputs, or inputs that are no floating-point numbers.

    Reference: Peng et al., "SWAP-NAS: sample-wise activation patterns for ultra-fast NAS", 2024.
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        self._x = check_inputs(x, "SWAP").detach().clone()
        self._network = scored_copy(network)

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; 0 where nothing bends."""
        codes = [coded(pattern) for pattern in active_units(self._network, self._x, *arguments)]
        return float(len(_unique(torch.cat(codes)))) if codes else 0.0


def coded(pattern: Tensor) -> Tensor:
    """Each unit's pattern over inputs as integers: [inputs, units] of booleans to [units that differ, words].

    >>> coded(torch.tensor([[True, False, True], [False, True, False]])).flatten().tolist()
    [1, 2]
    """
    words = []
    for start in range(0, len(pattern), BITS):
        bits = pattern[start : start + BITS].T.to(torch.int64)  # [units, inputs]
        words.append(bits @ (2 ** torch.arange(bits.shape[1], device=bits.device)))
    return _unique(torch.stack(words, dim=1))


def _unique(rows: Tensor) -> Tensor:
    """The rows that differ; of one column, far sooner than by torch's comparison of rows."""
    different: Tensor = torch.unique(rows[:, 0])[:, None] if rows.shape[1] == 1 else torch.unique(rows, dim=0)
    return different
