"""Recurrent layers as the products and sums that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def step_by_step(network: nn.Module) -> Iterator[None]:
    """Run a block in which recurrent layers are no single kernel, into which a trace could not look.

    >>> with step_by_step(nn.LSTM(3, 2)):
    ...     torch.backends.mkldnn.set_flags()[0]
    False
    """
    if not any(isinstance(module, nn.RNNBase) for module in network.modules()):
        yield
        return
    libraries = torch.backends.mkldnn, torch.backends.cudnn
    before = [library.set_flags(False)[0] for library in libraries]
    try:
        yield
    finally:
        for library, is_enabled in zip(libraries, before, strict=True):
            library.set_flags(is_enabled)
