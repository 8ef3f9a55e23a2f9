"""Inputs as guards keep them."""

from __future__ import annotations

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """The tensor without its graph, dense, in at least float32."""
    x = (x if x.layout is torch.strided else x.to_dense()).detach()
    if x.dtype is torch.float32:
        return x
    return x.to(torch.promote_types(x.dtype, torch.float32))


def has_no_columns(x: object) -> bool:
    """Whether the values of a tensor cannot be taken out where it is met: sequences of several lengths, and ``vmap``'s.

    Its product cannot be read, and so its weight counts as not covered.
    """
    return isinstance(x, Tensor) and (x.is_nested or torch._C._functorch.is_functorch_wrapped_tensor(x))
