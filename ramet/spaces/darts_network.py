"""The network that DARTS trains in the end: one genotype, wide and deep, with auxiliary head, drop-path and cutout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.spaces.base import Arch
from ramet.spaces.child import trace_child
from ramet.spaces.darts import Darts, darts_stages
from ramet.spaces.darts_cell import DartsCell
from ramet.spaces.layers import check_counts, to_channels_last


class DartsNetwork(nn.Module):
    """One architecture of the DARTS space as a network of its own, with affine batch norms.

    Args:
        space: the space; its ``channels`` and ``num_cells`` are those of this network (36 and 20 in DARTS).
        arch: the architecture.
        in_channels: of images.
        num_classes: of logits.
        auxiliary: whether a second classifier sits at two thirds of the depth during training; it needs images that are
            at least 5 x 5 there.
        drop_path: how probably an operation is left out for an image in training, 0.2 at the end of DARTS' schedule;
            set it with ``set_drop_path``.

    Example:
        >>> from ramet.costs import count_parameters
        >>> from ramet.spaces.genotypes import DARTS_V2
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
        super().__init__()
        check_counts(in_channels=in_channels, num_classes=num_classes)
        self.space, self.arch = space, space.check(arch)
        self.stages = nn.ModuleList(darts_stages(space, in_channels, num_classes, only=arch))
        self.auxiliary_after = 2 * space.num_cells // 3
        width = 4 * space.channels if space.num_cells > 2 else 2 * space.channels
        self.auxiliary = _auxiliary_head(space.num_nodes * width, num_classes) if auxiliary else None
        self.set_drop_path(drop_path)
        to_channels_last(self)

    def set_drop_path(self, probability: float) -> None:
        """Change the probability of drop-path, which DARTS raises linearly over the epochs."""
        if not 0 <= probability < 1:
            raise ConfigError(f"drop_path must lie in [0, 1), but got {probability}.")
        for module in self.modules():
            if isinstance(module, DartsCell):
                module.drop_path = probability

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape [batch, classes]."""
        return self._run(x)[0]

    def loss(self, x: Tensor, y: Tensor, *, auxiliary_weight: float = 0.4) -> Tensor:
        """The cross-entropy, in training with the auxiliary head's added at DARTS' weight of 0.4."""
        logits, beside = self._run(x)
        loss = cross_entropy(logits, y)
        return loss if beside is None else loss + auxiliary_weight * cross_entropy(beside, y)

    def _run(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        value, beside = self.stages[0](x, self.arch), None
        for cell, stage in enumerate(list(self.stages)[1:-1]):
            value = stage(value, self.arch)
            if self.auxiliary is not None and self.training and cell == self.auxiliary_after:
                beside = self.auxiliary(value[1])
        return self.stages[-1](value, self.arch), beside

    def plain(self) -> nn.Module:
        """The network without auxiliary head and drop-path, of ``torch.nn`` layers, which needs no ramet to run."""
        was_training = self.training
        try:
            return trace_child(self.eval().stages, self.arch)
        finally:
            self.train(was_training)


def cutout(x: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Images with a square of zeros each, its centre anywhere; length 16 for 32x32 images in DARTS.

    Args:
        x: images, shape [batch, channels, height, width].
        length: side of the square; what lies outside the image is cut off.
        generator: where the centres come from.
    """
    batch, _, height, width = x.shape
    rows = torch.randint(height, (batch, 1), generator=generator)
    columns = torch.randint(width, (batch, 1), generator=generator)
    low, high = length // 2, length - length // 2
    down, across = torch.arange(height), torch.arange(width)
    in_rows = (down >= rows - low) & (down < rows + high)  # [batch, height]
    in_columns = (across >= columns - low) & (across < columns + high)  # [batch, width]
    hole = in_rows[:, None, :, None] & in_columns[:, None, None, :]
    return x.masked_fill(hole.to(x.device), 0.0)


def _auxiliary_head(channels: int, num_classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ReLU(),
        nn.AvgPool2d(5, stride=3, padding=0, count_include_pad=False),
        nn.Conv2d(channels, 128, 1, bias=False),
        nn.BatchNorm2d(128),
        nn.ReLU(),
        nn.Conv2d(128, 768, 2, bias=False),
        nn.BatchNorm2d(768),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(768, num_classes),
    )
