"""What is kept between tasks: copies of tensors, how many numbers they hold, and masks as bits."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def copied(value: Any, device: str | None = None) -> Any:
    """Lists and dicts of tensors, or a module's state, as tensors of their own; on a device, or where they were."""
    if isinstance(value, Tensor):
        return value.detach().to(value.device if device is None else device, copy=True)
    if isinstance(value, nn.Module):
        return copied(value.state_dict(), device)
    if isinstance(value, Mapping):
        return {name: copied(item, device) for name, item in value.items()}
    return [copied(item, device) for item in value]


def num_trained(states: Iterable[Mapping[str, Tensor]], without: Container[str] = ()) -> int:
    """The numbers in the states of layers that a training changes: all but the statistics of batch norms.

    ``without`` are the names of further tensors that are not counted: constants of a module.
    """
    running = ("running_mean", "running_var", "num_batches_tracked")
    counted = ((name, t) for state in states for name, t in state.items() if name not in without)
    return sum(t.numel() for name, t in counted if not name.endswith(running))


def packed(masks: Iterable[Iterable[Tensor]]) -> list[list[Tensor]]:
    """Booleans as bits, for each task and layer."""
    return [[torch.from_numpy(np.packbits(mask.cpu().numpy())) for mask in own] for own in masks]


def unpacked(
    bits: Iterable[Iterable[Tensor]], lengths: Iterable[Iterable[int]], device: str = "cpu"
) -> list[list[Tensor]]:
    """The inverse of ``packed``, given how many booleans there were."""
    return [
        [
            torch.from_numpy(np.unpackbits(part.cpu().numpy())[:length].astype(bool)).to(device)
            for part, length in zip(own, sizes, strict=True)
        ]
        for own, sizes in zip(bits, lengths, strict=True)
    ]
