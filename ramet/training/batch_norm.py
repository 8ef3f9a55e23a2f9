"""Batch-norm statistics made anew: those of a supernet belong to whichever child was trained last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.training.modes import training_modes


@contextmanager
def reestimated_batch_norm(network: nn.Module, batches: Iterable[Tensor], *arguments: Any) -> Iterator[None]:
    """Within the block, running statistics are the plain average over ``batches``; afterwards they are as before.

    Args:
        network: called as ``network(batch, *arguments)`` in training mode, without gradients.
        batches: training inputs; a few mini-batches are enough.
        arguments: what else the network takes, for example the architecture.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    saved = [(norm, norm.momentum, {name: buffer.clone() for name, buffer in norm.named_buffers()}) for norm in norms]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # torch then takes the cumulative average instead of the moving one
        with training_modes(network), torch.no_grad():
            network.train()
            for batch in batches:
                network(batch, *arguments)
        yield
    finally:
        for norm, momentum, buffers in saved:
            norm.momentum = momentum
            for name, buffer in norm.named_buffers():
                buffer.copy_(buffers[name])
