"""Scores of many children of one supernet on one split."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramet.spaces import Arch
from ramet.training import EVALUATION_BATCH, accuracy, evaluating, reestimated_batch_norm


def score_children(supernet: nn.Module, archs: Sequence[Arch], x: Tensor, y: Tensor) -> list[float]:
    """The accuracy of every child with the shared weights and batch-norm statistics as they stand.

    Common prefixes are computed once a batch (``Supernet.forward_all``).
    """
    correct = torch.zeros(len(archs), dtype=torch.long)
    with evaluating(supernet):
        for inputs, labels in zip(torch.split(x, EVALUATION_BATCH), torch.split(y, EVALUATION_BATCH), strict=True):
            for place, logits in enumerate(supernet.forward_all(inputs, archs)):  # type: ignore[operator]
                correct[place] += (logits.argmax(dim=1) == labels).sum().cpu()
    return [int(count) / len(y) for count in correct]


def score_reestimated(
    supernet: nn.Module, archs: Sequence[Arch], x: Tensor, y: Tensor, calibration: Sequence[Tensor]
) -> list[float]:
    """The accuracy of every child with batch-norm statistics of its own, re-estimated on training inputs."""
    scores = []
    for arch in archs:
        with reestimated_batch_norm(supernet, calibration, arch):
            scores.append(accuracy(supernet, x, y, arch))
    return scores
