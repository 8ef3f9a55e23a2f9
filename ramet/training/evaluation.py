"""How good a network is on a split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.training.modes import training_modes

EVALUATION_BATCH = 500
"""Samples in an evaluation batch: large enough for speed, small enough for a core's cache at small image sizes."""


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; each module's mode is put back afterwards."""
    with training_modes(network), torch.inference_mode():
        network.eval()
        yield


def accuracy(network: nn.Module, x: Tensor, y: Tensor, *arguments: Any) -> float:
    """The share of samples whose largest logit is the label's.

    >>> identity = nn.Identity()
    >>> accuracy(identity, torch.eye(4), torch.tensor([0, 1, 2, 0]))
    0.75
    """
    correct = 0
    with evaluating(network):
        for inputs, labels in zip(torch.split(x, EVALUATION_BATCH), torch.split(y, EVALUATION_BATCH), strict=True):
            correct += int((network(inputs, *arguments).argmax(dim=1) == labels).sum())
    return correct / len(y)
