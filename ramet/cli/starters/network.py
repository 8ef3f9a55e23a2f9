"""A network of your own: any ``nn.Module``.

Try it:  ramet grow --network network.py:network --budget params=3k --epochs 3
Tasks:   ramet learn --network network.py:network --stream split-digits:5 --epochs 3

ramet traces the module and finds out what can get wider or deeper; nothing has to be registered or subclassed.
"""

from __future__ import annotations

from torch import nn


def network(in_channels: int, num_classes: int, width: int = 8) -> nn.Module:
    """A small convolutional network; ``--network network.py:network:width=16`` sets the width.

    Args:
        in_channels: of the images, given by the data.
        num_classes: given by the data.
        width: how many channels it begins with; an option of your own.
    """
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, num_classes),
    )
