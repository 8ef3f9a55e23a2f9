"""Networks to grow from: a small MLP, a VGG-like and a MobileNet-like one, made of torch's own classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch.fx
from torch import Tensor, nn

from ramet.errors import ConfigError

Sizes = int | Sequence[int]
"""One number for all, or one for each."""

SMALLEST_SIDE = 4
"""Images are halved only while their smaller side stays at least so large: 8x8 once, 32x32 three times."""

MOST_LAYERS = 1000
"""Of a network by name; a slip such as 99999 would otherwise be noticed after hours, when the memory ends."""


def mlp(
    in_channels: int, image_size: Sizes, num_classes: int, *, width: Sizes = 4, depth: int | None = None
) -> nn.Sequential:
    """A multi-layer perceptron on flattened images: linear and ReLU, ``depth`` times, then a linear layer.

    Args:
        in_channels: channels of an image.
        image_size: height and width, or one number for both.
        num_classes: outputs.
        width: units of each hidden layer, or of all.
        depth: hidden layers; as many as widths if not given, 2 for a single width.

    >>> [layer.out_features for layer in mlp(1, 8, 10, width=(5, 6)) if isinstance(layer, nn.Linear)]
    [5, 6, 10]
    """
    height, wide = _sides(image_size)
    widths = _widths(width, depth, 2, "mlp")
    units = [_positive("in_channels", in_channels) * height * wide, *widths]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(units):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(units[-1], _positive("num_classes", num_classes)))


def vgg(
    in_channels: int, image_size: Sizes, num_classes: int, *, width: Sizes = 4, depth: int | None = None
) -> nn.Sequential:
    """A VGG-like stack: 3x3 convolution, batch norm and ReLU, ``depth`` times, then global pooling and a linear layer.

    The images are halved by max pooling at even distances, as often as their size allows (``SMALLEST_SIDE``).

    Args:
        in_channels: channels of an image.
        image_size: height and width, or one number for both.
        num_classes: outputs.
        width: channels of each convolution. One number is the width of the first ones, doubled with every halving.
        depth: convolutions; as many as widths if not given, 6 for a single width.

    >>> [layer.out_channels for layer in vgg(3, 32, 10, width=8, depth=8) if isinstance(layer, nn.Conv2d)]
    [8, 8, 16, 16, 32, 32, 64, 64]
    """
    planned = _blocks(image_size, width, _widths(width, depth, 6, "vgg"))
    layers: list[nn.Module] = []
    channels = _positive("in_channels", in_channels)
    for wide, halved in planned:
        if halved:
            layers.append(nn.MaxPool2d(2))
        layers += _convolution(channels, wide)
        channels = wide
    head = nn.Linear(channels, _positive("num_classes", num_classes))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def mobilenet(
    in_channels: int,
    image_size: Sizes,
    num_classes: int,
    *,
    width: Sizes = 4,
    depth: int | None = None,
    expansion: int = 2,
    residual: bool = True,
) -> nn.Module:
    """A MobileNet-like network: depthwise convolutions between 1x1 ones, then global pooling and a linear layer.

    With ``residual`` the blocks are the inverted residuals of MobileNetV2: widened by ``expansion``, filtered, narrowed
    and added to their input where the shapes agree. Without, they are the depthwise-separable ones of MobileNetV1.
    Images are halved by strides, at even distances, as often as their size allows (``SMALLEST_SIDE``). The network with
    sums is a ``torch.fx.GraphModule``, so that it too is of a class of torch.

    Args:
        in_channels: channels of an image.
        image_size: height and width, or one number for both.
        num_classes: outputs.
        width: channels of each block. One number is the width of the first ones, doubled with every halving.
        depth: blocks; as many as widths if not given, 4 for a single width.
        expansion: how many times wider than its input the middle of an inverted residual is.
        residual: whether blocks are inverted residuals.

    >>> net = mobilenet(1, 8, 10, width=6, depth=3)
    >>> net(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    planned = _blocks(image_size, width, _widths(width, depth, 4, "mobilenet"))
    _positive("expansion", expansion)
    channels = planned[0][0]
    stem = nn.Sequential(*_convolution(_positive("in_channels", in_channels), channels))
    blocks: list[nn.Module] = []
    added: list[bool] = []
    for wide, halved in planned:
        stride = 2 if halved else 1
        block = _inverted(channels, wide, expansion, stride) if residual else _separable(channels, wide, stride)
        blocks.append(block)
        added.append(residual and stride == 1 and channels == wide)
        channels = wide
    head = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, _positive("num_classes", num_classes))
    )
    if not any(added):
        return nn.Sequential(stem, *blocks, head)
    whole = _Residuals(stem, blocks, added, head)
    return torch.fx.GraphModule(whole, _Whole().trace(whole), "MobileNet")


class _Whole(torch.fx.Tracer):
    """Leaves blocks whole, so that the network's modules stay the sequences that they are."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is one call of the graph."""
        return isinstance(m, nn.Sequential)


class _Residuals(nn.Module):
    """Blocks, of which some are added to their input; only its trace is ever used."""

    def __init__(self, stem: nn.Module, blocks: Sequence[nn.Module], added: Sequence[bool], head: nn.Module) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = stem, nn.ModuleList(blocks), head
        self.added = list(added)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape [batch, classes]."""
        x = self.stem(x)
        for block, added in zip(self.blocks, self.added, strict=True):
            x = x + block(x) if added else block(x)
        logits: Tensor = self.head(x)
        return logits


def _convolution(before: int, after: int, size: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution, batch norm and ReLU; the norm has the shift, so the convolution needs none."""
    convolution = nn.Conv2d(before, after, size, stride=stride, padding=size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def _separable(before: int, after: int, stride: int) -> nn.Sequential:
    """A block of MobileNetV1."""
    return nn.Sequential(*_convolution(before, before, 3, stride, before), *_convolution(before, after, 1))


def _inverted(before: int, after: int, expansion: int, stride: int) -> nn.Sequential:
    """A block of MobileNetV2; its last convolution has no activation."""
    middle = before * expansion
    narrow = _convolution(middle, after, 1)[:-1]
    return nn.Sequential(*_convolution(before, middle, 1), *_convolution(middle, middle, 3, stride, middle), *narrow)


def _blocks(image_size: Sizes, width: Sizes, widths: list[int]) -> list[tuple[int, bool]]:
    """For each block its width, doubled with every halving if one number is given, and whether it halves the image."""
    stages = _stages(image_size, len(widths))
    if isinstance(width, int):
        widths = [width * 2**stage for stage in stages]
    return [(wide, stage > before) for wide, stage, before in zip(widths, stages, [0, *stages[:-1]], strict=True)]


def _stages(image_size: Sizes, depth: int) -> list[int]:
    """How often the image has been halved when each of ``depth`` layers sees it.

    >>> _stages(32, 8), _stages(8, 4), _stages(32, 2)
    ([0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1], [0, 1])
    """
    side, halvings = min(_sides(image_size)), 0
    while side // 2 >= SMALLEST_SIDE and halvings < depth - 1:
        side, halvings = side // 2, halvings + 1
    return [number * (halvings + 1) // depth for number in range(depth)]


def _sides(image_size: Sizes) -> tuple[int, int]:
    sides = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(sides) != 2:
        raise ConfigError(f"image_size must be a height and a width, but got {image_size}.")
    return _positive("image_size", sides[0]), _positive("image_size", sides[1])


def _widths(width: Sizes, depth: int | None, default: int, name: str) -> list[int]:
    """A width for each layer."""
    if isinstance(width, int):
        if depth is not None and depth > MOST_LAYERS:
            raise ConfigError(f"the depth of {name} must be at most {MOST_LAYERS:,}, but got {depth}.")
        return [_positive("width", width)] * _positive("depth", default if depth is None else depth)
    widths = [_positive("width", one) for one in width]
    if not widths or depth not in (None, len(widths)):
        raise ConfigError(f"the widths of {name} must be as many as its depth, but got {list(width)} and {depth}.")
    return widths


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, but got {value!r}.")
    return value
