"""Scores of the children of a supernet: by a metric, by the loss, with batch norms of their own; higher is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ramet.spaces import Arch
from ramet.training import Metric, evaluating, in_batches, measure, reestimated_batch_norm
from ramet.training.metrics import accuracy


def score_children(
    supernet: nn.Module, archs: Sequence[Arch], x: Tensor, y: Tensor, metric: Metric | None = None
) -> list[float]:
    """The score of every child with the shared weights and batch norms as they are; common prefixes run once.

    Args:
        supernet: called as ``supernet(x, arch)``, and by ``forward_all``.
        archs: the children.
        x: inputs, [samples, ...].
        y: targets, [samples, ...].
        metric: what is measured, the accuracy if none. A score is its value, or minus that where lower is better.
    """
    metric = metric or accuracy()
    if metric.sums is None:  # the outputs of one child at a time: those of all would not fit into memory
        return [metric.score(measure(supernet, x, y, metric, arch)) for arch in archs]
    totals: list[Tensor | None] = [None] * len(archs)
    with evaluating(supernet):
        for inputs, targets in in_batches(x, y):
            for place, outputs in enumerate(supernet.forward_all(inputs, archs)):  # type: ignore[operator]
                part, total = metric.sums(outputs, targets).cpu().double(), totals[place]
                totals[place] = part if total is None else total + part
        targets = y.cpu()
        return [metric.score(metric.result(total, targets)) for total in totals if total is not None]


def score_losses(
    supernet: nn.Module,
    archs: Sequence[Arch],
    x: Tensor,
    y: Tensor,
    of_outputs: Callable[[Tensor, Tensor], Tensor],
) -> list[float]:
    """The loss of every child, negative, so that more is better: unlike an accuracy it has no ties."""
    total = torch.zeros(len(archs), dtype=torch.double)
    with evaluating(supernet):
        for inputs, labels in in_batches(x, y):
            for place, logits in enumerate(supernet.forward_all(inputs, archs)):  # type: ignore[operator]
                total[place] += float(of_outputs(logits, labels)) * len(labels)
    return [-float(value) / len(y) for value in total]


def score_reestimated(
    supernet: nn.Module,
    archs: Sequence[Arch],
    x: Tensor,
    y: Tensor,
    calibration: Sequence[Tensor],
    metric: Metric | None = None,
) -> list[float]:
    """The score of every child with batch-norm statistics of its own, re-estimated on training inputs.

    By a metric, or by the accuracy if none is given; see ``score_children``.
    """
    metric = metric or accuracy()
    scores = []
    for arch in archs:
        with reestimated_batch_norm(supernet, calibration, arch):
            scores.append(metric.score(measure(supernet, x, y, metric, arch)))
    return scores
