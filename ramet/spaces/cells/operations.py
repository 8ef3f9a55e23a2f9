"""The operations that an edge of a cell can take, by the names that the field gives them.

Each is a builder of one ``nn.Module`` that keeps the shape of its input, made from ``torch.nn`` parts and from layers
that export as such, so that an exported child holds nothing of ramet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from ramet.errors import ConfigError
from ramet.spaces.kernels.depthwise import DepthwiseConv2d
from ramet.spaces.kernels.pooling import MaxPool3x3

Builder = Callable[[int, float], nn.Module]
"""Makes one operation: ``builder(channels, bn_momentum)``."""


def depthwise(channels: int, kernel: int, dilation: int = 1) -> nn.Conv2d:
    """A convolution that treats each channel alone and keeps height and width."""
    padding = dilation * (kernel - 1) // 2
    return DepthwiseConv2d(channels, channels, kernel, padding=padding, dilation=dilation, bias=False)


def _separable(channels: int, momentum: float, kernel: int, dilation: int = 1) -> list[nn.Module]:
    return [
        nn.ReLU(),
        depthwise(channels, kernel, dilation),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels, momentum=momentum, affine=False),
    ]


def separable_convolution(kernel: int) -> Builder:
    """Twice ReLU, depthwise convolution, pointwise convolution, batch norm without affine parameters."""

    def build(channels: int, momentum: float) -> nn.Module:
        return nn.Sequential(*_separable(channels, momentum, kernel), *_separable(channels, momentum, kernel))

    return build


def dilated_convolution(kernel: int) -> Builder:
    """Once ReLU, depthwise convolution of dilation 2, pointwise convolution, batch norm without affine parameters."""

    def build(channels: int, momentum: float) -> nn.Module:
        return nn.Sequential(*_separable(channels, momentum, kernel, dilation=2))

    return build


def _max_pool(channels: int, momentum: float) -> nn.Module:
    return nn.Sequential(MaxPool3x3(), nn.BatchNorm2d(channels, momentum=momentum, affine=False))


def _average_pool(channels: int, momentum: float) -> nn.Module:
    pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return nn.Sequential(pool, nn.BatchNorm2d(channels, momentum=momentum, affine=False))


def _skip(channels: int, momentum: float) -> nn.Module:
    return nn.Identity()


OPERATIONS: Mapping[str, Builder] = {
    "max_pool_3x3": _max_pool,
    "sep_conv_3x3": separable_convolution(3),
    "sep_conv_5x5": separable_convolution(5),
    "dil_conv_5x5": dilated_convolution(5),
    "dil_conv_3x3": dilated_convolution(3),
    "avg_pool_3x3": _average_pool,
    "skip_connect": _skip,
}
"""The operations that ``Cells64`` can be made of."""


def make_operation(name: str, channels: int, bn_momentum: float) -> nn.Module:
    """One operation by its name.

    Raises:
        ConfigError: if there is no operation of that name.
    """
    if name not in OPERATIONS:
        raise ConfigError(f"an operation is one of {', '.join(OPERATIONS)}, but got {name!r}.")
    return OPERATIONS[name](channels, bn_momentum)
