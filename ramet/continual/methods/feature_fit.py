"""How well what a network gives serves another task: a ridge regression on its features, judged on validation data."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ramet.training import evaluating, output_of

PENALTIES = (1e-3, 1e-2, 1e-1)
"""Ridge penalties as shares of the number of samples, for features of unit variance; the best of them counts."""

SEEN_AT_ONCE = 64


class FeatureFit(NamedTuple):
    """How well targets follow from features: the accuracy, or R² for numbers; and the standard error of that."""

    score: float
    error: float


def feature_fit(
    body: nn.Module, train: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], num_outputs: int
) -> FeatureFit:
    """Fit a linear map from a body's features to targets, and measure it on other samples.

    W = (F'F + penalty n I)^-1 F'Y = F'(FF' + penalty n I)^-1 Y, whichever matrix is the smaller one. The rows of F are
    centred features, divided by their common deviation, so that a network of larger activations is no better for that,
    and those of Y the centred targets (one-hot for classes).
    Where each token has a class, tokens are the samples.

    Args:
        body: from inputs to features, [samples, ...] or [samples, tokens, features].
        train: inputs and targets that the map is fitted to.
        validation: those that it is judged by.
        num_outputs: classes, or numbers of a target.
    """
    seen, judged = (_features(body, x, y) for x, y in (train, validation))
    are_classes = not train[1].is_floating_point()
    wanted, targets = (_targets(y, num_outputs, are_classes) for y in (train[1], validation[1]))
    mean, spread = seen.mean(0), seen.std(correction=0).clamp_min(1e-12)
    seen, judged = (seen - mean) / spread, (judged - mean) / spread
    offset = wanted.mean(0)
    is_wide = seen.shape[1] > len(seen)
    gram = seen @ seen.T if is_wide else seen.T @ seen
    right = wanted - offset if is_wide else seen.T @ (wanted - offset)
    unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    fits = []
    for penalty in PENALTIES:
        solved = torch.linalg.solve(gram + penalty * len(seen) * unit, right)
        weights = seen.T @ solved if is_wide else solved  # [features, outputs]
        fits.append(_judged(judged @ weights + offset, targets, are_classes))
    return max(fits, key=lambda fit: fit.score)


def _judged(outputs: Tensor, targets: Tensor, are_classes: bool) -> FeatureFit:
    if are_classes:
        share = (outputs.argmax(1) == targets.argmax(1)).double().mean().item()
        return FeatureFit(share, (share * (1 - share) / len(targets)) ** 0.5)
    errors = (outputs - targets).square().sum(1)
    variance = (targets - targets.mean(0)).square().sum(1).mean().clamp_min(1e-12)
    deviation = errors.std(correction=0) if len(errors) > 1 else errors.new_zeros(())
    return FeatureFit((1 - errors.mean() / variance).item(), (deviation / variance / len(errors) ** 0.5).item())


def _features(body: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Rows of features, [samples, features]; of tokens, [samples * tokens, features]."""
    with evaluating(body):
        seen = torch.cat([output_of(body(part)) for part in torch.split(x, SEEN_AT_ONCE)])
    are_tokens = not y.is_floating_point() and y.ndim > 1
    return (seen.flatten(0, 1) if are_tokens and seen.ndim > 2 else seen.flatten(1)).double().clone()


def _targets(y: Tensor, num_outputs: int, are_classes: bool) -> Tensor:
    if are_classes:
        return one_hot(y.flatten().clamp_min(0), num_outputs).double()
    return y.double().reshape(len(y), -1)
