"""ZiCo: gradients that are large and agree between mini-batches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy
from ramet.training.losses import squared_error


class ZiCo(TrainingFreeScore):
    """The inverse coefficient of variation of gradients, over mini-batches.

    For each layer l with weights theta, whose gradients over mini-batches have the mean magnitude m(theta) and the
    deviation s(theta), the score is the sum over l of log sum_theta m(theta) / s(theta), over those that vary. Networks
    whose gradients are large and steady converge sooner and generalise better.

    Args:
        network: any module that gives logits; it is copied.
        x: inputs, shape [inputs, ...], which are cut into the mini-batches.
        y: their labels, [inputs]; by default the classes in turns. Of targets that are numbers, [inputs, ...], the loss
            is the squared error: the reference has classes only.
        num_batches: how many mini-batches, 2 in the reference.

    Raises:
        ConfigError: fewer than two inputs a mini-batch, or inputs that are no floating-point numbers.

    Reference: Li et al., "ZiCo: zero-shot NAS via inverse coefficient of variation on gradients", 2023.
    """

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor | None = None, *, num_batches: int = 2) -> None:
        if num_batches < 2:
            raise ConfigError(f"num_batches must be at least 2, but got {num_batches}.")
        self._x = check_inputs(x, "ZiCo", fewest=2 * num_batches).detach().clone()
        self._y = None if y is None else y.detach().clone()
        are_numbers = self._y is not None and self._y.is_floating_point() and len(self._y) == len(x)
        if self._y is not None and not are_numbers and (self._y.is_floating_point() or self._y.shape != x.shape[:1]):
            raise ConfigError(f"ZiCo needs a label for each of {len(x)} inputs, but got {tuple(self._y.shape)}.")
        self._network = scored_copy(network, through_norms=True)
        self._weights = [param for param in self._network.parameters() if param.ndim > 1]
        self._num_batches = num_batches

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where no weight has a gradient that varies."""
        batches = []
        for rows in torch.arange(len(self._x)).tensor_split(self._num_batches):
            logits = self._network(self._x[rows], *arguments)
            y = rows.to(logits.device) % logits.shape[1] if self._y is None else self._y[rows]
            loss = squared_error(logits, y) if y.is_floating_point() else cross_entropy(logits, y)
            batches.append(torch.autograd.grad(loss, self._weights, allow_unused=True))
        total, is_any = 0.0, False
        for slopes in zip(*batches, strict=True):
            if any(slope is None for slope in slopes):
                continue
            stacked = torch.stack([slope.double() for slope in slopes])  # [batches, ...]
            deviation = stacked.std(dim=0, correction=0)
            ratios = stacked.abs().mean(dim=0)[deviation > 0] / deviation[deviation > 0]
            if (summed := float(ratios.sum())) > 0:
                total, is_any = total + math.log(summed), True
        return total if is_any else -math.inf
