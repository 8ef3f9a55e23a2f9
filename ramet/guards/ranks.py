"""What guards of the ranks of one distributed training must agree on.

Gradients are already the same on every rank, but the inputs of layers are not. A guard that learns from inputs would
project each rank's update differently, and the copies of the network would part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


def process_group_of(module: nn.Module) -> Any | None:
    """The group of ranks that train a module together, or None for a module that is not wrapped for it."""
    inner: object = module
    while isinstance(inner, nn.Module):
        if isinstance(inner, nn.parallel.DistributedDataParallel):
            return inner.process_group
        inner = getattr(inner, "_orig_mod", None)
    return None


def world_size(group: Any | None) -> int:
    """The number of ranks in a group; 1 without a group."""
    return 1 if group is None else torch.distributed.get_world_size(group)


def sum_over_ranks(tensors: Sequence[Tensor], group: Any | None) -> None:
    """Replace each tensor by its sum over the ranks of a group, in place; without a group nothing happens."""
    if world_size(group) > 1:
        for tensor in tensors:
            torch.distributed.all_reduce(tensor, group=group)
