"""From pixels to what a network reads: averaged to the wanted size, standardised by the training split.

Every sum runs in float64 in a fixed order, and everything else is element by element, so that the result, and with
it the fingerprint of the data set, has the same bits on every platform.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramet.data.splits import Indices

Pixels: TypeAlias = npt.NDArray[Any]
"""Images as the source gave them, ``[n, channels, height, width]``, of any real dtype."""

_ROWS = 512  # images converted at a time: whole sets would need float64 copies of gigabytes
_MOST_VALUES = 2**22  # of large images fewer are: 512 of 224 x 224 are 0.6 GB in float64, and sums need copies


def average_pool(images: npt.NDArray[np.float64], size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Adaptive average pooling: output row i is the mean of input rows floor(i H / h) to ceil((i + 1) H / h).

    From ``[n, channels, height, width]`` to ``[n, channels, *size]``, as ``torch.nn.functional.adaptive_avg_pool2d``.
    """
    for axis, wanted in ((2, size[0]), (3, size[1])):
        length = images.shape[axis]
        if wanted == length:
            continue
        starts = np.arange(wanted) * length // wanted
        ends = -(-(np.arange(1, wanted + 1) * length) // wanted)
        windows = (ends - starts).reshape([-1 if i == axis else 1 for i in range(4)])
        other = 5 - axis  # each line along the axis is summed by itself, so that strips across it change no bit
        count = max(1, _MOST_VALUES * images.shape[other] // max(1, images.size))
        strips = []
        for start in range(0, images.shape[other], count):
            strip = images[(slice(None),) * other + (slice(start, start + count),)]
            zero = np.zeros_like(np.take(strip, [0], axis))
            sums = np.concatenate([zero, np.cumsum(strip, axis)], axis)  # one longer than the axis
            strips.append((np.take(sums, ends, axis) - np.take(sums, starts, axis)) / windows)
        images = strips[0] if len(strips) == 1 else np.concatenate(strips, other)
    return images


def channel_statistics(
    pixels: Pixels, rows: Indices, size: tuple[int, int]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation of each channel over the given rows, after pooling, of shape ``[channels]``.

    A channel that is constant has the deviation 1, so that it becomes zero instead of dividing by zero.
    """
    count = len(rows) * size[0] * size[1]
    mean = _channel_sums(pixels, rows, size, np.zeros(pixels.shape[1]), power=1) / count
    deviation = np.sqrt(_channel_sums(pixels, rows, size, mean, power=2) / count)
    # Rounding leaves a constant channel a deviation near 1e-16 of its mean; float32 cannot tell 1e-7 apart.
    constant = deviation <= 1e-7 * np.abs(mean)
    return mean, np.where(constant, 1.0, deviation)


def standardise(
    pixels: Pixels,
    rows: Indices,
    size: tuple[int, int],
    mean: npt.NDArray[np.float64],
    deviation: npt.NDArray[np.float64],
) -> Tensor:
    """The given rows, pooled, less the mean and divided by the deviation of each channel, in float32."""
    out = np.empty((len(rows), pixels.shape[1], *size), dtype=np.float32)
    shift, scale = mean[:, None, None], deviation[:, None, None]
    start = 0
    for block in _blocks(pixels, rows, size):
        out[start : start + len(block)] = (block - shift) / scale
        start += len(block)
    return torch.from_numpy(out)


def _blocks(pixels: Pixels, rows: Indices, size: tuple[int, int]) -> Iterator[npt.NDArray[np.float64]]:
    count = min(_ROWS, max(1, _MOST_VALUES // math.prod(pixels.shape[1:])))
    for start in range(0, len(rows), count):
        block = np.ascontiguousarray(pixels[rows[start : start + count]], dtype=np.float64)
        if pixels.dtype == np.uint8:
            block /= 255
        yield average_pool(block, size)


def _channel_sums(
    pixels: Pixels, rows: Indices, size: tuple[int, int], centre: npt.NDArray[np.float64], *, power: int
) -> npt.NDArray[np.float64]:
    total = np.zeros((pixels.shape[1], *size))
    for start in range(0, len(rows), _ROWS):
        part: npt.NDArray[np.float64] = np.empty((0, *total.shape))  # the sum so far, as one more image
        for block in _blocks(pixels, rows[start : start + _ROWS], size):
            # Adding along the first axis is image after image on every platform, also from one block to the next, so
            # that the size of blocks has no influence; fsum is exact in any order.
            powers = (block - centre[:, None, None]) ** power
            part = np.add.reduce(np.concatenate([part, powers]) if len(part) else powers, axis=0, keepdims=True)
        total += part[0]
    return np.array([math.fsum(channel.ravel()) for channel in total])
