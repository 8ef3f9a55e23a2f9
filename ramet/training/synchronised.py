"""Batch norm over the samples of several ranks, on any device.

torch's ``SyncBatchNorm`` works on GPUs only. Here the moments of a layer's inputs are summed over the ranks in the
forward pass, and two sums of the output's gradient in the backward pass. With x^ = (x - mean) / sigma over all n values
of a channel,

    dL/dx = w / sigma (g - sum(g) / n - x^ sum(g x^) / n),

where g is the output's gradient and the sums are over all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

Sum = Callable[[Sequence[Tensor]], None]
"""Replaces each tensor by its sum over the ranks, in place."""


class SynchronisedNorms:
    """The batch norms of a network, which see the samples of all ranks for as long as a block runs.

    Only within the block, because a module that kept a changed ``forward`` could not be copied. Norms that use their
    running statistics stay as they are.

    Args:
        network: its modules ``nn.BatchNorm1d``, ``2d`` and ``3d`` are meant; batch norm as a function, or in a class
            with a ``forward`` of its own, is not seen.
        sum_over_ranks: how sums are taken. The loss that is differentiated must be this rank's part of the whole loss,
            so that gradients of the ranks add up.
    """

    def __init__(self, network: nn.Module, sum_over_ranks: Sum) -> None:
        self._norms = [
            module
            for module in network.modules()
            if isinstance(module, _BatchNorm) and type(module).forward is _BatchNorm.forward
        ]
        self._sum = sum_over_ranks

    @contextmanager
    def synchronised(self) -> Iterator[None]:
        """The block."""
        for norm in self._norms:
            norm.__dict__["forward"] = partial(synchronised_forward, norm, sum_over_ranks=self._sum)
        try:
            yield
        finally:
            for norm in self._norms:
                del norm.__dict__["forward"]


def synchronised_forward(norm: _BatchNorm, x: Tensor, *, sum_over_ranks: Sum) -> Tensor:
    """What ``norm(x)`` gives for this rank's samples, [batch, channels, ...], by the statistics of all ranks'."""
    if not norm.training and norm.running_mean is not None:
        return type(norm).forward(norm, x)
    norm._check_input_dim(x)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        mean, var, count = _moments(x.detach(), sum_over_ranks)
        if norm.training and norm.track_running_stats:
            _update_running(norm, mean, var * (count / (count - 1)))
    dtype = torch.promote_types(x.dtype, torch.float32)
    y: Tensor = _Normalise.apply(  # type: ignore[no-untyped-call]
        x, norm.weight, norm.bias, mean.to(dtype), var.to(dtype), norm.eps, count, sum_over_ranks
    )
    return y


def _moments(x: Tensor, sum_over_ranks: Sum) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and biased variance of each channel in float64, [channels], and how many values a channel has, [1]."""
    var, mean = torch.var_mean(x.to(torch.promote_types(x.dtype, torch.float32)), _other_dims(x), correction=0)
    count = x.numel() // x.shape[1]
    mean, var = mean.double(), var.double()
    # Sums of squares lose digits that float64 has to spare: the variance itself was taken about the rank's own mean.
    sums = torch.cat([mean * count, (var + mean.square()) * count, mean.new_tensor([float(count)])])
    sum_over_ranks([sums])
    total = sums[-1:]  # a tensor still: on a GPU a number would make the host wait in every layer
    mean, square = (sums[:-1] / total).chunk(2)
    return mean, (square - mean.square()).clamp(min=0), total


def _update_running(norm: _BatchNorm, mean: Tensor, var: Tensor) -> None:
    assert norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    factor = 1.0 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    if factor > 0:
        norm.running_mean.mul_(1 - factor).add_(mean.to(norm.running_mean.dtype), alpha=factor)
        norm.running_var.mul_(1 - factor).add_(var.to(norm.running_var.dtype), alpha=factor)


def _other_dims(x: Tensor) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != 1]


class _Normalise(torch.autograd.Function):
    """Normalise by given moments; their own dependence on the inputs of all ranks is in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        eps: float,
        count: Tensor,
        sum_over_ranks: Sum,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, torch.rsqrt(var + eps), count)
        ctx.sum_over_ranks = sum_over_ranks
        return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, count = ctx.saved_tensors
        shape = [1, -1] + [1] * (x.dim() - 2)
        g = gradients[0].to(mean.dtype)
        normal = (x.to(mean.dtype) - mean.view(shape)) * inverse.view(shape)
        plain, along = g.sum(_other_dims(x)), (g * normal).sum(_other_dims(x))  # [channels]
        sums = torch.cat([plain, along]).double()
        ctx.sum_over_ranks([sums])
        mean_plain, mean_along = (sums / count).to(g.dtype).chunk(2)
        scale = inverse if weight is None else inverse * weight
        # Fewer passes: scale * (g - mean_plain - normal * mean_along).
        gx = normal.mul_(-mean_along.view(shape)).add_(g).sub_(mean_plain.view(shape)).mul_(scale.view(shape))
        # The parameters' gradients stay this rank's part, as those of all other layers do.
        has_bias = ctx.needs_input_grad[2]
        return (
            gx.to(x.dtype),
            None if weight is None else along.to(weight.dtype),
            plain if has_bias else None,
            *[None] * 5,
        )
