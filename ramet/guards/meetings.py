"""What a parameter meets in one call of a torch function.

A reader has the arguments of the function that it reads, and gives the products in that call: the tensor that may be a
parameter, and what it is multiplied with. Nothing is computed before it is known that the tensor is a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor


class Arrangement(NamedTuple):
    """How a tensor becomes [groups, outputs, inputs]: reshaped, its axes put in order, and reshaped again."""

    first: tuple[int, ...]
    order: tuple[int, ...]
    last: tuple[int, int, int]

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor in groups of matrices."""
        return tensor.reshape(self.first).permute(self.order).reshape(self.last)


class Meeting(NamedTuple):
    """One product in one call.

    Attributes:
        weight: what may be a parameter, or a part of one.
        kind: see ``layers.Kind``.
        inputs: for a matrix the columns, [groups, inputs, n]; for rows how often each was looked up; for entries, in
            the weight's shape, the sum of their squared inputs. If called with True the mean: one column, and for
            entries the mean input itself. Where ``has_positions``, the columns are then those of all positions, each
            the mean over samples.
        arrangement: how the weight is a matrix.
        bias: what is added to the product, or None.
        axis: where the outputs are: 1 for channels, -1 for the last; None where a product has no outputs of its own.
        has_positions: whether the weight meets every position of an image, as a convolution's does.
        pooled: the mean over samples and positions at once, one column, where that is cheaper than by ``inputs``.
        pixels: the images that this is the mean of, where every pixel is met once and by itself.
    """

    weight: Tensor
    kind: Literal["matrix", "rows", "entries"]
    inputs: Callable[[bool], Tensor]
    arrangement: Arrangement | None = None
    bias: Tensor | None = None
    axis: int | None = None
    has_positions: bool = False
    pooled: Callable[[], Tensor] | None = None
    pixels: Tensor | None = None


Reader = Callable[..., Iterable[Meeting]]


class Readers(dict[Any, Reader]):
    """What reads a call of a torch function, by the function."""

    def of(self, *functions: Any) -> Callable[[Reader], Reader]:
        """Put the reader that follows for some functions."""

        def put(reader: Reader) -> Reader:
            self.update(dict.fromkeys(functions, reader))
            return reader

        return put


def with_bias(x: Tensor, has_bias: bool, *, mean: bool, value: float = 1.0) -> Tensor:
    """Columns, or their mean, with a last row for a bias, whose input is 1; and 0 in a call in which it had no part."""
    x = x.mean(-1, keepdim=True) if mean and x.shape[-1] > 1 else x
    return torch.cat([x, x.new_full((x.shape[0], 1, x.shape[2]), value)], dim=1) if has_bias else x


def ones(weight: Tensor, num_outputs: int, mean: bool) -> Tensor:
    """The inputs of what is added, which are 1: how many of the outputs each entry is in, or their mean."""
    count = 1.0 if mean else num_outputs / max(weight.numel(), 1)
    return torch.full_like(weight, count, dtype=torch.promote_types(weight.dtype, torch.float32))


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that some shapes have together."""
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
