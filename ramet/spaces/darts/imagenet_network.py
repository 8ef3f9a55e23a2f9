"""An architecture of the DARTS space as a network for ImageNet: a stem that reduces images by eight, fewer cells."""

from __future__ import annotations

from torch import Tensor, nn

from ramet.spaces.base import Arch
from ramet.spaces.darts.final_network import FinalNetwork
from ramet.spaces.darts.space import Darts, darts_stages
from ramet.spaces.darts.two_inputs import Pair
from ramet.spaces.layers import check_counts


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


class DartsImageNetNetwork(FinalNetwork):
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

    def __init__(
        self,
        space: Darts,
        arch: Arch,
        in_channels: int,
        num_classes: int,
        *,
        auxiliary: bool = True,
        drop_path: float = 0.0,
    ) -> None:
        check_counts(in_channels=in_channels, num_classes=num_classes)
        width = 4 * space.channels if space.num_cells > 1 else 2 * space.channels
        stem = ImageNetStem(in_channels, space.channels, space.bn_momentum)
        super().__init__(
            darts_stages(space, in_channels, num_classes, only=space.check(arch), stem=stem),
            arch,
            auxiliary_after=1 + 2 * space.num_cells // 3 if auxiliary else None,
            auxiliary_channels=space.num_nodes * width,
            num_classes=num_classes,
            drop_path=drop_path,
        )
        self.space = space
