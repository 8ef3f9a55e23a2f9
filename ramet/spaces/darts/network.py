"""The network that DARTS trains in the end: one genotype, wide and deep, with auxiliary head and drop-path."""

from __future__ import annotations

from ramet.spaces.base import Arch
from ramet.spaces.darts.final_network import FinalNetwork
from ramet.spaces.darts.space import Darts, darts_stages
from ramet.spaces.layers import check_counts


class DartsNetwork(FinalNetwork):
    """One architecture of the DARTS space as a network of its own, with affine batch norms.

    Args:
        space: the space; its ``channels`` and ``num_cells`` are those of this network (36 and 20 in DARTS).
        arch: the architecture.
        in_channels: of images.
        num_classes: of logits.
        auxiliary: whether a second classifier sits at two thirds of the depth during training.
        drop_path: how probably an operation is left out for an image in training, 0.2 at the end of DARTS' schedule;
            set it with ``set_drop_path``.

    Example:
        >>> from ramet.costs import count_parameters
        >>> from ramet.spaces.darts.genotypes import DARTS_V2
        >>> space = Darts(channels=36, num_cells=20)
        >>> count_parameters(DartsNetwork(space, space.parse(DARTS_V2), 3, 10, auxiliary=False))
        3349342
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
        super().__init__(
            darts_stages(space, in_channels, num_classes, only=space.check(arch)),
            arch,
            auxiliary_after=1 + 2 * space.num_cells // 3 if auxiliary else None,
            auxiliary_channels=space.num_nodes * width,
            num_classes=num_classes,
            drop_path=drop_path,
        )
        self.space = space
