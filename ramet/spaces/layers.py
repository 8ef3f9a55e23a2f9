"""What the supernets of several spaces share: memory layout, stem, concatenation and classifier."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch

MOST = {"num_nodes": 100, "num_cells": 10_000, "cells_per_stage": 10_000}
"""Counts of which each costs modules; of channels and classes the memory is the bound."""


def check_counts(**counts: int) -> None:
    """Raise a ``ConfigError`` that names the first of the counts which is not a whole number of at least 1.

    It is also bounded from above: otherwise a slip would be noticed after hours, when the memory ends.
    """
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, but got {value!r}.")
        if value > MOST.get(name, 2**31):
            raise ConfigError(f"{name} must be at most {MOST.get(name, 2**31):,}, but got {value!r:.80}.")


def check_momentum(bn_momentum: float) -> None:
    """Raise a ``ConfigError`` for what is no momentum of batch norms."""
    if not 0 < bn_momentum <= 1:
        raise ConfigError(f"bn_momentum must be above 0 and at most 1, but got {bn_momentum}.")


def to_channels_last(network: nn.Module) -> None:
    """Lay out the weights of a network with the channels innermost, in place.

    Children are many small convolutions, and on a CPU the backward pass of a depthwise convolution is what they wait
    for: with channels last it takes a third to a half of the time (64 x 16 x 32 x 32, 5x5: 9.9 ms instead of 29.6).
    Weights are converted once here and inputs once in the stem; every layer between keeps the layout, so that
    nothing is converted back and forth.
    """
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def concatenate(nodes: Sequence[Tensor]) -> Tensor:
    """A cell's output: its nodes side by side, whose gradients come back each in memory of its own.

    Torch hands each node a slice of the output's gradient, with gaps. Its batch norm has no quick backward pass for
    that: it took three times as long, and a third of a step of DARTS' cells.
    """
    for node in nodes:
        if isinstance(node, Tensor) and node.requires_grad:  # while a child is being traced it is not a tensor
            node.register_hook(_without_gaps)  # type: ignore[no-untyped-call]
    return torch.cat(list(nodes), dim=1)


def _without_gaps(gradient: Tensor) -> Tensor:
    return gradient.contiguous(memory_format=torch.channels_last)


class Stem(nn.Module):
    """A 3x3 convolution and a batch norm at the beginning of a chain."""

    def __init__(self, in_channels: int, channels: int, momentum: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels, momentum=momentum)
        )

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """From [batch, in, height, width] to [batch, channels, height, width]."""
        x = x.contiguous(memory_format=torch.channels_last)  # See to_channels_last for the reason.
        features: Tensor = self.layers(x)
        return features


class Head(nn.Module):
    """The classifier at the end of a chain: what comes before the pooling, global average pooling, a linear layer."""

    def __init__(self, channels: int, num_classes: int, *before: nn.Module) -> None:
        super().__init__()
        self.before = nn.Sequential(*before)
        self.linear = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """Logits, shape [batch, classes]."""
        logits: Tensor = self.linear(self.before(x).mean((2, 3)))
        return logits
