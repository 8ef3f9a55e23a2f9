"""VKDNW: how evenly a network's weights are known, from the spectrum of its Fisher information."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ramet.ranking.scores.base import TrainingFreeScore, check_inputs, scored_copy
from ramet.ranking.scores.sizes import Layers
from ramet.seeding import derive_seed


class Vkdnw(TrainingFreeScore):
    """The entropy of the deciles of the eigenvalues of the Fisher information, beside the number of layers.

    With the probabilities p of the classes and the Jacobian J of the logits with respect to one weight of each layer,
    the Fisher information is the mean over inputs of J' (diag(p) - p p') J. Its nine deciles l_k, divided by their sum,
    have the entropy H in [0, log 9]: highest where no weight is known much better than another. It does not depend on
    size, so that the reference adds it to the number of layers: layers + H / log 9.

    The weight of a layer is fixed by its name, so that an architecture has one score.

    Args:
        network: any module that gives logits; it is copied.
        x: the mini-batch, shape [inputs, ...]; no labels are needed.
        num_inputs: how many of them are used: each costs a backward pass for each class.
        adds_layers: whether the number of layers is added.

    Raises:
        ConfigError: fewer than two inputs, or inputs that are no floating-point numbers.

    Reference: Tybl and Neumann, "Training-free neural architecture search through variance of knowledge of deep network
        weights", 2025.
    """

    def __init__(self, network: nn.Module, x: Tensor, *, num_inputs: int = 8, adds_layers: bool = True) -> None:
        self._x = check_inputs(x, "VKDNW").detach().clone()[:num_inputs]
        self._network = scored_copy(network)
        named = [(name, param) for name, param in self._network.named_parameters() if param.ndim > 1]
        self._weights = [param for _, param in named]
        self._entries = [derive_seed(0, "vkdnw", name) % param.numel() for name, param in named]
        self._layers = Layers(network, x) if adds_layers else None

    def __call__(self, *arguments: Any) -> float:
        """The score of ``network(x, *arguments)``; minus infinity where the outputs depend on no weight."""
        logits = self._network(self._x, *arguments)  # [inputs, classes]
        if not logits.requires_grad:
            return -math.inf
        rows: list[list[Tensor]] = []
        for value in logits.flatten():
            slopes = torch.autograd.grad(value, self._weights, retain_graph=True, allow_unused=True)
            pairs = zip(slopes, self._entries, strict=True)
            rows.append([slope.flatten()[entry] for slope, entry in pairs if slope is not None])
        jacobian = torch.tensor(rows, dtype=torch.float64).reshape(*logits.shape, -1)  # [inputs, classes, weights]
        entropy = entropy_of_deciles(fisher_of(jacobian, logits.detach().double().cpu().softmax(dim=1)))
        if entropy is None:
            return -math.inf
        return entropy / math.log(9) + (0.0 if self._layers is None else self._layers(*arguments))


def fisher_of(jacobian: Tensor, probabilities: Tensor) -> Tensor:
    """The Fisher information [weights, weights] from [inputs, classes, weights] and [inputs, classes]."""
    mean = torch.einsum("nc,ncw->nw", probabilities, jacobian)
    second = torch.einsum("nc,ncw,ncv->wv", probabilities, jacobian, jacobian)
    return (second - mean.T @ mean) / len(jacobian)


def entropy_of_deciles(fisher: Tensor) -> float | None:
    """The entropy of the deciles of the eigenvalues, divided by their sum; none where all are zero."""
    eigenvalues = torch.linalg.eigvalsh(fisher).clamp_min(0)
    deciles = torch.quantile(eigenvalues, torch.arange(1, 10, dtype=torch.float64) / 10)
    if not float(deciles.sum()) > 0:
        return None
    shares = deciles / deciles.sum()
    return -float(torch.special.xlogy(shares, shares).sum())
