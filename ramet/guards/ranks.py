"""What guards of the ranks of one distributed training must agree on.

Gradients are already the same on every rank, but the inputs of layers are not. A guard that learns from inputs would
project each rank's update differently, and the copies of the network would part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.execution.ranks import BatchPart, ranks_of


def process_group_of(module: nn.Module) -> Any | None:
    """The group of ranks that train a module together, or None for a module that is not wrapped for it."""
    for outer in _wrappers_of(module):
        if isinstance(outer, nn.parallel.DistributedDataParallel):
            return outer.process_group
        ranks = ranks_of(outer)
        if ranks is not None:
            return ranks.group
    return None


def part_of(module: nn.Module) -> BatchPart | None:
    """What this rank takes of the mini-batch under way; None for a module that ``Ranks`` does not train.

    ``DistributedDataParallel`` does not know the parts of its ranks, which are taken as equal. Its losses are means
    over a rank's own samples; those of ``Ranks`` are parts of one mean over the whole mini-batch.
    """
    found = [ranks.current for outer in _wrappers_of(module) if (ranks := ranks_of(outer)) is not None]
    return found[0] if found else None


def _wrappers_of(module: nn.Module) -> Iterator[nn.Module]:
    """The module, and what ``torch.compile`` has wrapped in it."""
    inner: object = module
    while isinstance(inner, nn.Module):
        yield inner
        inner = getattr(inner, "_orig_mod", None)


def world_size(group: Any | None) -> int:
    """The number of ranks in a group; 1 without a group."""
    return 1 if group is None else torch.distributed.get_world_size(group)


def sum_over_ranks(tensors: Sequence[Tensor], group: Any | None) -> None:
    """Replace each tensor by its sum over the ranks of a group, in place; without a group nothing happens."""
    if world_size(group) > 1:
        for tensor in tensors:
            torch.distributed.all_reduce(tensor, group=group)


def average_over_ranks(tensors: Sequence[Tensor], weight: float, group: Any) -> list[Tensor]:
    """The means over the ranks of a group, each rank counting by its weight: in one message for all tensors."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors]) * weight
    sum_over_ranks([flat], group)
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
