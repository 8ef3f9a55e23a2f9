"""Inputs as guards keep them."""

from __future__ import annotations

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """The tensor without its graph, in at least float32."""
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
