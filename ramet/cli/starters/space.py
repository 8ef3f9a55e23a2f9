"""A space of your own: a network with decisions in it.

Try it:  ramet rank --space space.py:network --instances 2 --epochs 3
Search:  ramet search --space space.py:network --strategy evolution

Put a ``Choice`` wherever the network has something to decide; everything else is plain torch. All children share the
weights of the options that they have in common.
"""

from __future__ import annotations

from torch import nn

from ramet.spaces import Choice


def convolution(in_channels: int, out_channels: int, kernel_size: int) -> nn.Module:
    """One option: a convolution with batch norm. Every option of a place must give the same shape."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
    )


def network(in_channels: int, num_classes: int, channels: int = 8) -> nn.Module:
    """The network with all its options; ``ramet rank --space space.py:network:channels=16`` sets the width.

    Args:
        in_channels: of the images, given by the data.
        num_classes: given by the data.
        channels: the width; an option of your own.
    """
    return nn.Sequential(
        Choice({f"{size}x{size}": convolution(in_channels, channels, size) for size in (1, 3, 5)}),
        Choice({"relu": nn.ReLU(), "silu": nn.SiLU()}),
        Choice({"max": nn.MaxPool2d(2), "mean": nn.AvgPool2d(2)}),
        Choice({f"{size}x{size}": convolution(channels, channels, size) for size in (1, 3)}),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, num_classes),
    )
