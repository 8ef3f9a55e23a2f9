"""An architecture of the DARTS space as a network for ImageNet: a stem that reduces images by eight, fewer cells."""

from __future__ import annotations

from torch import Tensor, nn

from ramet.spaces.base import Arch
from ramet.spaces.darts.final_network import DartsNetwork
from ramet.spaces.darts.space import Darts
from ramet.spaces.darts.two_inputs import Pair


class ImageNetStem(nn.Module):
    """Three 3x3 convolutions of stride 2; the cells' first two inputs are what the second and the third give."""

    def __init__(self, in_channels: int, channels: int, bn_momentum: float) -> None:
        super().__init__()
        half = channels // 2

        def halving(start: int, end: int) -> list[nn.Module]:
            return [
                nn.Conv2d(start, end, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(end, momentum=bn_momentum),
            ]

        self.older = nn.Sequential(*halving(in_channels, half), nn.ReLU(), *halving(half, channels))
        self.newer = nn.Sequential(nn.ReLU(), *halving(channels, channels))

    def forward(self, x: Tensor, arch: Arch) -> Pair:
        """From [batch, in, 224, 224] to [batch, channels, 56, 56] and [batch, channels, 28, 28]."""
        older = self.older(x)
        return older, self.newer(older)


class DartsImageNetNetwork(DartsNetwork):
    """One architecture of the DARTS space for images of 224 x 224, with affine batch norms.

    It has the space's width and depth; 48 channels and 14 cells, of which 2 are reductions, in DARTS and in
    *Disturbance-immune weight sharing* (section 5.2). The auxiliary head, if there is one, sits at two thirds of the
    depth, on 7 x 7 pixels.

    >>> from ramet.costs import count_parameters
    >>> from ramet.spaces.darts.genotypes import DARTS_V2
    >>> space = Darts(channels=48, num_cells=14)
    >>> count_parameters(DartsImageNetNetwork(space, space.parse(DARTS_V2), 3, 1000, auxiliary=False))
    4718752
    """

    @staticmethod
    def stem(space: Darts, in_channels: int) -> nn.Module:
        """Three convolutions that reduce images by eight."""
        return ImageNetStem(in_channels, space.channels, space.bn_momentum)
