"""Max pooling over 3x3 windows that is quick when nothing has to be differentiated."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MaxPool3x3(nn.MaxPool2d):
    """``nn.MaxPool2d(3, stride=1, padding=1)``, two to four times quicker on a CPU in evaluation.

    Torch's kernel also finds where each maximum is, which only a backward pass needs. Without one, the maximum over a
    window is the maximum over its rows of the maximum over its columns: four element-wise maxima of shifted views. The
    values are the same bits. Scoring all children of a supernet pools a great deal.

    >>> x = torch.randn(2, 3, 5, 4)
    >>> with torch.no_grad():
    ...     torch.equal(MaxPool3x3()(x), nn.functional.max_pool2d(x, 3, 1, 1))
    True
    """

    def __init__(self) -> None:
        super().__init__(3, stride=1, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        """The maximum over each window, of the shape of ``input``, [batch, channels, height, width]."""
        if torch.is_grad_enabled() or input.device.type != "cpu":
            pooled: Tensor = super().forward(input)
            return pooled
        return _widest(_widest(input, dim=2), dim=3)

    def plain(self) -> nn.MaxPool2d:
        """The layer of torch that this one stands for."""
        return nn.MaxPool2d(3, stride=1, padding=1).train(self.training)


def _widest(x: Tensor, dim: int) -> Tensor:
    """The maximum of each value and its two neighbours along one dimension."""
    result = x.clone()
    length = x.shape[dim] - 1
    later, earlier = result.narrow(dim, 1, length), result.narrow(dim, 0, length)
    torch.maximum(later, x.narrow(dim, 0, length), out=later)
    torch.maximum(earlier, x.narrow(dim, 1, length), out=earlier)
    return result
