"""Training and evaluation modes: changed for a block, and put back module by module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def training_modes(network: nn.Module) -> Iterator[None]:
    """Run a block that may call ``network.train()`` or ``network.eval()``; each module gets its own mode back.

    Modules of one network can have different modes: a frozen part stays in evaluation mode while the rest is trained.

    >>> network = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with training_modes(network):
    ...     _ = network.eval()
    >>> [module.training for module in network]
    [True, False]
    """
    modes = [(module, module.training) for module in network.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            if module.training != mode:
                module.training = mode
