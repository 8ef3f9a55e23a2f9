"""AZ-NAS' trainability: whether gradients keep their size from block to block."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy
from ramet.ranking.scores.blocks import features_of_blocks, rows_of
from ramet.seeding import torch_generator


class Trainability(TrainingFreeScore):
    """How near to 1 the spectral norm of the Jacobian of each block is, in the mean over blocks.

    For random signs v, the matrix of E[(J'v) v'] over inputs and positions estimates the Jacobian J of a block between
    channels. With its largest singular value s the score of a block is 2 - s - 1 / s, which is 0 where s is 1 and
    negative elsewhere. A block that hands on what it gets is no block that learns: minus infinity, as in the reference.

    Where a block has fewer positions than the one before, those that fall together count as channels.

    Args:
        network: any module whose parts keep maps of features; it is copied.
        x: the mini-batch, shape [inputs, channels, ...]; no labels are needed.

    Raises:
        ConfigError: fewer than two inputs, or inputs that are no floating-point numbers.

    Reference: Lee and Ham, "AZ-NAS: assembling zero-cost proxies for network architecture search", 2024.
    """

    def __init__(self, network: nn.Module, x: Tensor) -> None:
        self._x = check_inputs(x, "trainability").detach().clone().requires_grad_()
        self._network = scored_copy(network, through_norms=True)

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity with fewer than two blocks."""
        generator = torch_generator(0, "trainability")  # the same signs for every architecture
        features = features_of_blocks(self._network, self._x, *arguments)
        scores = []
        for before, after in pairwise(features):
            signs = torch.randint(0, 2, after.shape, generator=generator).to(after) * 2 - 1
            if not after.requires_grad:
                return -math.inf
            (slope,) = torch.autograd.grad(after, before, signs, retain_graph=True, allow_unused=True)
            if slope is None or (slope.shape == signs.shape and torch.equal(slope, signs)):
                return -math.inf
            scores.append(_flow(_folded(slope, after), signs))
        return sum(scores) / len(scores) if scores else -math.inf


def _flow(slope: Tensor, signs: Tensor) -> float:
    """The score of a block from J'v and v, both [inputs, channels, ...] with the same positions."""
    into, out = rows_of(slope).double(), rows_of(signs).double()
    largest = float(torch.linalg.matrix_norm(into.T @ out / len(out), ord=2))
    return 2 - largest - 1 / (largest + 1e-6)


def _folded(slope: Tensor, after: Tensor) -> Tensor:
    """Positions of a map that fall together in a smaller one as channels."""
    if slope.ndim != 4 or slope.shape[2:] == after.shape[2:]:
        return slope
    return nn.functional.pixel_unshuffle(slope, slope.shape[2] // after.shape[2])
