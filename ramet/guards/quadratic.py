"""The Fisher-weighted squared distance to an anchor: its value, its gradient and its proximal step.

Weight plasticity and elastic consolidation are both this one penalty, alpha / 2 times the sum over weights of F_i
(theta_i - anchor_i)^2, and differ in where ``F`` (``fisher``) and the anchor come from. All of it works on lists of
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.params import Params


def quadratic_penalty(params: Params, anchor: Params, fisher: Params) -> Tensor:
    """Fisher-weighted squared distance to the anchor, Eq. 8 without its factor alpha / 2; autograd goes through it.

    Only the names that ``fisher`` has count: in Eq. 8, the parameters shared with earlier models.

    >>> value = torch.tensor([3.0])
    >>> quadratic_penalty({"w": value}, {"w": torch.tensor([1.0])}, {"w": torch.tensor([0.5])})
    tensor(2.)
    """
    terms = [(fisher[name] * (params[name] - anchor[name]).square()).sum() for name in fisher if name in params]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def penalty_gradients(
    params: list[Tensor], anchors: list[Tensor], fishers: list[Tensor], strength: float
) -> list[Tensor]:
    """The gradient of ``strength / 2`` times the penalty: ``strength * fisher * (params - anchors)``, kept finite."""
    gradients = list(torch._foreach_sub(params, anchors))
    torch._foreach_mul_(gradients, fishers)
    torch._foreach_mul_(gradients, strength)
    limit = torch.finfo(gradients[0].dtype).max / 100
    torch._foreach_clamp_min_(gradients, -limit)
    torch._foreach_clamp_max_(gradients, limit)
    return gradients


def proximal_step_(
    params: list[Tensor],
    anchors: list[Tensor],
    fishers: list[Tensor],
    strengths: Sequence[float],
    enabled: Tensor,
) -> None:
    """Move the parameters, in place, to the minimum of the penalty plus half the squared distance to where they are.

    theta <- (theta + s F anchor) / (1 + s F) with s = step size x alpha, one of ``strengths`` for each tensor: a point
    between the parameter and its anchor, so that no strength can make it diverge; the explicit gradient step diverges
    once ``s F`` exceeds 2. ``enabled`` is a tensor of one value, 1 to take the step and 0 to leave everything as it is
    (no device is waited for).
    """
    # As a mix of the parameter and its anchor with weight s F / (1 + s F) = 1 / (1 + 1 / (s F)): this form has neither
    # inf / inf for a huge s F, nor 0 / 0 for none, and with s F = 0 the parameter keeps its every bit.
    weights = list(torch._foreach_mul(fishers, list(strengths)))
    torch._foreach_reciprocal_(weights)
    torch._foreach_add_(weights, 1.0)
    torch._foreach_reciprocal_(weights)
    torch._foreach_mul_(weights, enabled)
    torch._foreach_lerp_(params, anchors, weights)


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """1 where every value is finite and 0 otherwise, as a tensor of one value on the first tensor's device.

    Largest magnitudes are used because a sum of squares of float16 overflows.
    """
    dense = [tensor.coalesce().values() if tensor.is_sparse else tensor for tensor in tensors]
    dense = [tensor for tensor in dense if tensor.numel()]
    if not dense:
        return torch.ones(())
    largest = [value.to(dense[0].device, torch.float32) for value in torch._foreach_norm(dense, float("inf"))]
    return torch.isfinite(torch.stack(largest)).all().to(torch.float32)
