"""Which network an architecture that was found is trained in, where that is another than its path in the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramet.errors import ConfigError
from ramet.fields import option

if TYPE_CHECKING:
    from torch import nn

    from ramet.spaces import Arch, Space


@dataclass(frozen=True, kw_only=True)
class FinalNetworkOptions:
    """What the final training adds to the search's network; by default nothing.

    Args:
        channels: the width of the network that is trained in the end (darts and enas-micro); by default the search's.
            DARTS searches with 16 and ends with 36.
        cells: its number of cells (in enas-micro, of each stage); by default the search's. DARTS ends with 20.
        auxiliary_weight: weight of the loss of a second classifier at two thirds of the depth, 0.4 in DARTS.
        drop_path: the probability that an operation is left out for an image; it rises linearly from 0 in the first
            epoch, to just below this at the end. 0.2 in DARTS.
        cutout: side of the square that is cut out of each training image, 16 of 32 pixels in DARTS.

    Reference: Liu, Simonyan and Yang, DARTS, 2019, section 3.2 and appendix A.
    """

    channels: int | None = option(None, name="final-channels")
    cells: int | None = option(None, name="final-cells")
    auxiliary_weight: float = 0.0
    drop_path: float = 0.0
    cutout: int = 0

    def __post_init__(self) -> None:
        from ramet.spaces.darts.final_network import check_drop_path

        check_drop_path(self.drop_path)
        counts = [count for count in (self.channels, self.cells) if count is not None]
        if any(count < 1 for count in counts) or self.cutout < 0 or not 0 <= self.auxiliary_weight < float("inf"):
            raise ConfigError(
                "a final network has at least 1 channel and cell, and no negative auxiliary_weight or cutout, but got "
                f"{(self.channels, self.cells, self.auxiliary_weight, self.cutout)}."
            )

    @property
    def is_plain(self) -> bool:
        """Whether it is the search's own network, trained on whole images."""
        return not self.cutout and not self._needs_network

    @property
    def _needs_network(self) -> bool:
        """Whether more than the training images differs."""
        return self.channels is not None or self.cells is not None or bool(self.auxiliary_weight or self.drop_path)

    def check(self, space: Space, input_shape: tuple[int, ...]) -> None:
        """Raise a ``ConfigError`` if the space or its inputs have no such final network."""
        if self.is_plain:
            return
        if len(input_shape) != 3:
            raise ConfigError("auxiliary head, drop-path and cutout are for images, but the data are words.")
        if self.cutout > min(input_shape[1:]):
            raise ConfigError(f"cutout must be at most the {min(input_shape[1:])} pixels of a side, got {self.cutout}.")
        if self._needs_network and not space.has_final_network:
            raise ConfigError(
                "auxiliary head, drop-path and another size are for spaces with a final network of their own, "
                f"but {space.describe()['kind']} has none."
            )

    def build(self, space: Space, arch: Arch, in_channels: int, num_classes: int) -> nn.Module:
        """The network that is trained, called as ``network(x, arch)``."""
        if not self._needs_network:
            return space.supernet(in_channels, num_classes)
        larger = space.resized(channels=self.channels, cells=self.cells)
        return larger.final_network(arch, in_channels, num_classes, auxiliary=self.auxiliary_weight > 0)
