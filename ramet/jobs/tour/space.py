"""The space of the tour's first two parts: small networks for small images, 64 of them, in which size misleads.

Three places, and in each one of four things: nothing, a blur without a weight, a 3x3 convolution, or two 1x1
convolutions with six times the channels between them. These have more weights than the 3x3 convolution and see one
pixel at a time, so that the largest network is not the best. ``ramet rank --space ramet.jobs.tour.space:network``
takes it from the command line.
"""

from __future__ import annotations

from torch import nn

from ramet.spaces import Choice

CHANNELS = 8
EXPANSION = 6
"""That of the inverted residuals in Sandler et al., *MobileNetV2* (2018), here without their 3x3 convolution."""


def network(in_channels: int, num_classes: int) -> nn.Sequential:
    """A network with three choices, as every user may write one.

    >>> from ramet.spaces import ModuleSpace
    >>> len(ModuleSpace(network, in_channels=1))
    64
    """
    return nn.Sequential(
        *_convolution(in_channels, CHANNELS, 3),
        Choice(_options(), name="first"),
        nn.MaxPool2d(2),
        Choice(_options(), name="second"),
        nn.MaxPool2d(2),
        Choice(_options(), name="third"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(CHANNELS, num_classes),
    )


def _options() -> dict[str, nn.Module]:
    wide = EXPANSION * CHANNELS
    return {
        "skip": nn.Identity(),
        "blur": nn.AvgPool2d(3, stride=1, padding=1),
        "3x3": nn.Sequential(*_convolution(CHANNELS, CHANNELS, 3)),
        "wide-1x1": nn.Sequential(*_convolution(CHANNELS, wide, 1), *_convolution(wide, CHANNELS, 1)),
    }


def _convolution(before: int, after: int, side: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, side, padding=side // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
