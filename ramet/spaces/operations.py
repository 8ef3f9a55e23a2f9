"""The operations of cells, by the names that the field gives them: with a stride, and affine batch norms or not.

Each is made from ``torch.nn`` parts and from layers that export as such, so that an exported child holds nothing of
ramet.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, cat, nn
from torch.nn.functional import pad

from ramet.errors import ConfigError
from ramet.spaces.kernels.depthwise import DepthwiseConv2d
from ramet.spaces.kernels.pooling import MaxPool3x3

DARTS_OPERATIONS = (
    "none", "max_pool_3x3", "avg_pool_3x3", "skip_connect",
    "sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5",
)  # fmt: skip
"""The eight operations of DARTS, in its order."""


class FactorisedReduction(nn.Module):
    """Halves height and width without a pooling: two 1x1 convolutions of stride 2, one of them a pixel aside.

    Departs from DARTS for odd sizes, which fail there: the input is padded by a row and a column of zeros, of
    which an even size sees nothing.
    """

    def __init__(self, in_channels: int, out_channels: int, momentum: float, affine: bool) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        # With 2 to 7 channels in channels_last memory oneDNN's weight gradient of a strided 1x1 convolution writes past
        # its buffer, and the process aborts (torch 2.13 on processors without AVX-512). There the pixels are picked
        # first; with more channels the stride is up to three times as quick.
        stride = 2 if in_channels >= 8 else 1
        self.pick = 2 // stride
        self.even = nn.Conv2d(in_channels, out_channels // 2, 1, stride=stride, bias=False)
        self.odd = nn.Conv2d(in_channels, out_channels - out_channels // 2, 1, stride=stride, bias=False)
        self.norm = nn.BatchNorm2d(out_channels, momentum=momentum, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        """From [batch, in, height, width] to [batch, out, height / 2, width / 2], rounded up."""
        x = self.relu(x)
        aside = pad(x, (0, 1, 0, 1))[:, :, 1 :: self.pick, 1 :: self.pick]
        halves = cat([self.even(x[:, :, :: self.pick, :: self.pick]), self.odd(aside)], dim=1)
        reduced: Tensor = self.norm(halves)
        return reduced


def check_operations(operations: Sequence[str], known: Sequence[str]) -> None:
    """Raise a ``ConfigError`` that names the first operation which is unknown."""
    for operation in operations:
        if operation not in known:
            raise ConfigError(f"an operation is one of {', '.join(known)}, but got {operation!r}.")


def squeeze(in_channels: int, out_channels: int, momentum: float, affine: bool) -> nn.Sequential:
    """ReLU, 1x1 convolution, batch norm: what brings a cell's input to its width."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(in_channels, out_channels, 1, bias=False),
        nn.BatchNorm2d(out_channels, momentum=momentum, affine=affine),
    )


def make_strided(name: str, channels: int, stride: int, momentum: float, *, affine: bool) -> nn.Module | None:
    """One operation of DARTS by its name; None for ``none``. A supernet's is not ``affine``, and norms its poolings."""
    check_operations([name], DARTS_OPERATIONS)
    kernel = 5 if name.endswith("5x5") else 3
    if name == "none":
        return None
    if name == "skip_connect":
        return nn.Identity() if stride == 1 else FactorisedReduction(channels, channels, momentum, affine)
    if name == "max_pool_3x3":
        pool: nn.Module = MaxPool3x3() if stride == 1 else nn.MaxPool2d(3, stride=stride, padding=1)
    elif name == "avg_pool_3x3":
        pool = nn.AvgPool2d(3, stride=stride, padding=1, count_include_pad=False)
    elif name in ("sep_conv_3x3", "sep_conv_5x5"):
        first = _separable(channels, kernel, stride, 1, momentum, affine)
        return nn.Sequential(*first, *_separable(channels, kernel, 1, 1, momentum, affine))
    else:
        return nn.Sequential(*_separable(channels, kernel, stride, 2, momentum, affine))
    return pool if affine else nn.Sequential(pool, nn.BatchNorm2d(channels, momentum=momentum, affine=False))


def _separable(
    channels: int, kernel: int, stride: int, dilation: int, momentum: float, affine: bool
) -> list[nn.Module]:
    padding = dilation * (kernel - 1) // 2
    return [
        nn.ReLU(),
        DepthwiseConv2d(channels, channels, kernel, stride=stride, padding=padding, dilation=dilation, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels, momentum=momentum, affine=affine),
    ]
