"""Child 434 of the 64-children space as its authors lay it out: contiguous NCHW modules of torch, nothing of ramet's.

It is what ``bench_steps`` compares with, and it computes the same function as ramet's child when it has its weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _batch_norm(channels: int, affine: bool) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, momentum=0.4, affine=affine)


def _separable(channels: int, kernel: int, dilation: int = 1) -> list[nn.Module]:
    padding = dilation * (kernel - 1) // 2
    return [
        nn.ReLU(),
        nn.Conv2d(channels, channels, kernel, padding=padding, dilation=dilation, groups=channels, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        _batch_norm(channels, affine=False),
    ]


class _Cell434(nn.Module):
    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.preprocess = nn.Sequential(
            nn.ReLU(), nn.Conv2d(in_channels, channels, 1, bias=False), _batch_norm(channels, affine=False)
        )
        self.edge_01 = nn.Sequential(*_separable(channels, 5, dilation=2))  # 4: dil_conv_5x5
        self.edge_02 = nn.Sequential(*_separable(channels, 5), *_separable(channels, 5))  # 3: sep_conv_5x5
        self.edge_12 = nn.Sequential(*_separable(channels, 5, dilation=2))  # 4: dil_conv_5x5

    def forward(self, x: Tensor) -> Tensor:
        x0 = self.preprocess(x)
        x1 = self.edge_01(x0)
        x2 = self.edge_02(x0) + self.edge_12(x1)
        return torch.cat([x1, x2], dim=1)  # [batch, 2 * channels, height, width]


class AuthorsChild434(nn.Module):
    """Stem of two convolutions, a chain of cells, global average pooling, a linear layer."""

    def __init__(self, channels: int, num_cells: int, in_channels: int, num_classes: int) -> None:
        super().__init__()
        width = 3 * channels
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
            _batch_norm(width, affine=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            _batch_norm(width, affine=True),
        )
        self.cells = nn.ModuleList(_Cell434(width if i == 0 else 2 * channels, channels) for i in range(num_cells))
        self.linear = nn.Linear(2 * channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for cell in self.cells:
            x = cell(x)
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits

    def take_weights(self, child: nn.Module) -> None:
        """Copy the parameters of ramet's child, which are registered in the same order; their layout stays ours."""
        with torch.no_grad():
            for ours, theirs in zip(self.parameters(), child.parameters(), strict=True):
                ours.copy_(theirs)
