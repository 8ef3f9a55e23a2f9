"""How children that share weights help or hurt each other, from their gradients or from what training one did."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.training import training_modes
from ramet.training.outputs import classes_last


def gradient_affinity(
    supernet: nn.Module,
    archs: Sequence[Hashable],
    x: Tensor,
    y: Tensor,
    *,
    batch_size: int = 256,
    of_outputs: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> NDArray[np.float32]:
    """The cosine between the gradients of every pair of children on the weights that they share, [children, children].

    To first order, a step of child i changes the loss of child j by -eta g_i' g_j, a sum over the weights that both
    use: a positive cosine means that training one helps the other. Every child sees the same samples, ``batch_size`` in
    a forward pass; the supernet, called as ``supernet(x, arch)``, is left as it was. ``of_outputs`` is the loss, the
    mean over a batch: without one it is the cross-entropy of classes.
    """
    params = [param for param in supernet.parameters() if param.requires_grad]
    buffers = {name: buffer.clone() for name, buffer in supernet.named_buffers()}
    gradients = torch.zeros(len(archs), sum(param.numel() for param in params), device=x.device)  # [children, values]
    with training_modes(supernet):
        supernet.train()  # gradients are taken with each child's own batch statistics, as in training
        for inputs, labels in zip(torch.split(x, batch_size), torch.split(y, batch_size), strict=True):
            for row, arch in zip(gradients, archs, strict=True):
                loss = _summed_loss(supernet(inputs, arch), labels, of_outputs)
                grads = torch.autograd.grad(loss, params, allow_unused=True)
                flat = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, params, strict=True)]
                row += torch.cat([value.reshape(-1) for value in flat])
    with torch.no_grad():
        for name, buffer in supernet.named_buffers():
            buffer.copy_(buffers[name])
    gradients = torch.nn.functional.normalize(gradients, dim=1)
    cosine: NDArray[np.float32] = (gradients @ gradients.T).cpu().numpy()
    return cosine


def _summed_loss(outputs: Tensor, y: Tensor, of_outputs: Callable[[Tensor, Tensor], Tensor] | None) -> Tensor:
    """The loss of a batch, summed over its samples, or over its tokens."""
    if of_outputs is not None:
        return of_outputs(outputs, y) * len(y)
    logits = classes_last(outputs, y).flatten(0, -2)  # [samples or tokens, classes]
    return cross_entropy(logits, y.flatten(), reduction="sum")


def trained_effect(scores: NDArray[np.floating], trained: Sequence[int]) -> NDArray[np.float64]:
    """Who disturbs whom: the mean change of child j's score in the steps that train child i, [children, children].

    ``scores`` are those of every child after each step, [steps, children]. The first step has nothing before it and is
    left out; the row of a child that was never trained is NaN.

    >>> trained_effect(np.array([[0.5, 0.5], [0.7, 0.4], [0.6, 0.6]]), [1, 0, 1]).round(2).tolist()
    [[0.2, -0.1], [-0.1, 0.2]]
    """
    scores = np.asarray(scores, dtype=float)
    return mean_change(np.diff(scores, axis=0), np.asarray(trained)[1:], scores.shape[1])


def mean_change(change: NDArray[np.floating], trained: NDArray[np.integer], num_children: int) -> NDArray[np.float64]:
    """The mean of the rows of ``change``, shape [steps, children], for each trained child; NaN for one without rows."""
    one_hot = (np.asarray(trained)[:, None] == np.arange(num_children)).astype(float)  # [steps, children]
    with np.errstate(invalid="ignore", divide="ignore"):
        effect: NDArray[np.float64] = (one_hot.T @ change) / one_hot.sum(axis=0)[:, None]
    return effect
