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
