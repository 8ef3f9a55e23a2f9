"""Convolutions and transposed ones as products of matrices with the patches and pixels that they see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ramet.guards.meetings import Arrangement, Meeting, Readers, ones
from ramet.guards.precision import precise

READERS = Readers()

Shape = tuple[int, ...]


@READERS.of(functional.conv1d, functional.conv2d, functional.conv3d)
def _conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Iterable[Meeting]:
    given = (stride, padding, dilation)
    kept = (tuple(value) if isinstance(value, list) else value for value in given)  # lists have no hash
    kernel, strides, gaps, pads, whole = _geometry(tuple(weight.shape), *kept, groups)

    def inputs(mean: bool) -> Tensor:
        return conv_columns(input, kernel, strides, gaps, groups, pads=pads, padding_mode="zeros", mean=mean)

    def pooled() -> Tensor:
        return pooled_column(input, kernel, gaps, groups, pads=pads)

    if strides != (1, 1):
        return [Meeting(weight, "matrix", inputs, whole, bias, 1, has_positions=True)]
    pixels = input if _sees_pixels(kernel, pads) and input.dim() == 4 else None
    return [Meeting(weight, "matrix", inputs, whole, bias, 1, has_positions=True, pooled=pooled, pixels=pixels)]


@lru_cache(maxsize=1024)  # asked for every convolution in every step
def _geometry(
    shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Shape, Shape, Shape, Shape, Arrangement]:
    """The kernel, its strides and dilations, what is padded, and how the weight is a matrix."""
    dims, kernel = len(shape) - 2, shape[2:]
    strides, gaps = _each(stride, dims), _each(dilation, dims)
    whole = Arrangement(shape, tuple(range(dims + 2)), (groups, shape[0] // groups, math.prod(shape[1:])))
    return kernel, strides, gaps, _pads(padding, kernel, gaps), whole


def _each(value: Any, dims: int) -> Shape:
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) * dims if len(value) == 1 else tuple(value)


def _pads(padding: Any, kernel: Shape, dilation: Shape) -> Shape:
    """What is put before and after each axis, the last axis first, as ``functional.pad`` wants it."""
    pairs = []
    for axis, (size, gap) in enumerate(zip(kernel, dilation, strict=True)):
        if isinstance(padding, str):
            total = gap * (size - 1) if padding == "same" else 0
            pairs.append((total // 2, total - total // 2))
        else:
            pairs.append((_each(padding, len(kernel))[axis],) * 2)
    return tuple(value for pair in reversed(pairs) for value in pair)


def _sees_pixels(kernel: Sequence[int], pads: Sequence[int]) -> bool:
    """Whether every pixel is a patch of its own."""
    return not any(pads) and all(reach == 1 for reach in kernel)


def conv_columns(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *,
    pads: Sequence[int],
    padding_mode: str,
    mean: bool,
) -> Tensor:
    """What a convolution's filters see, [groups, in / groups * kernel, n]; the mean only over samples."""
    dims = len(kernel)
    x = precise(x if x.dim() == dims + 2 else x.unsqueeze(0))
    if mean:
        # Taking patches is linear, so that the mean may be taken first, at a fraction of the cost.
        x = mean_over_samples(x)
    x = functional.pad(x, list(pads), mode="constant" if padding_mode == "zeros" else padding_mode)
    if dims == 1:
        x, kernel, stride, dilation = x.unsqueeze(2), (1, *kernel), (1, *stride), (1, *dilation)
    if dims < 3:
        patches = functional.unfold(x, tuple(kernel), dilation=tuple(dilation), stride=tuple(stride))
    else:
        patches = _unfold_3d(x, kernel, stride, dilation)
    batch, width, positions = patches.shape  # width is in * kernel
    patches = patches.reshape(batch, groups, width // groups, positions)
    return patches.permute(1, 2, 0, 3).reshape(groups, width // groups, batch * positions)


def pooled_column(
    x: Tensor, kernel: Sequence[int], dilation: Sequence[int], groups: int, *, pads: Sequence[int]
) -> Tensor:
    """The mean over samples and positions of what filters of stride 1 see, [groups, in / groups * kernel, 1].

    In the mean patch, the value at place i, j of the kernel is the mean over a part of the image as large as the
    output, that begins i and j dilations from its corner. So it is the mean image times a small matrix, or between two,
    one an axis, and takes no patches at all.
    """
    x = precise(x if x.dim() == 4 else x.unsqueeze(0))
    if _sees_pixels(kernel, pads):
        return x.mean((0, 2, 3)).reshape(groups, -1, 1)
    size, last = (x.shape[2], x.shape[3]), mean_over_samples(x)[0].permute(1, 2, 0)  # [height, width, in]
    if size[0] * size[1] * math.prod(kernel) <= _SMALL:
        parts = _parts_of_image(size, tuple(kernel), tuple(dilation), tuple(pads), x.dtype, x.device)
        means = (parts @ last.reshape(parts.shape[1], -1)).T  # [in, kernel]
        return means.reshape(groups, -1, 1)
    rows, columns = _parts_of_axes(size, tuple(kernel), tuple(dilation), tuple(pads), x.dtype, x.device)
    along = (rows @ last.reshape(len(last), -1)).reshape(len(rows), *last.shape[1:])  # [kernel, width, in]
    return (columns @ along).permute(2, 0, 1).reshape(groups, -1, 1)


_SMALL = 2**14
"""Entries of the matrix for a whole image up to which one product with it is quicker than one for each axis."""


@lru_cache(maxsize=256)
def _parts_of_image(
    size: Shape, kernel: Shape, dilation: Shape, pads: Shape, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """What the places of a kernel see of an image: a row each, that takes the mean of its part, [kernel, pixels]."""
    rows, columns = _parts_of_axes(size, kernel, dilation, pads, dtype, device)
    return torch.kron(rows, columns)


@lru_cache(maxsize=256)
def _parts_of_axes(
    size: Shape, kernel: Shape, dilation: Shape, pads: Shape, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The same along the height and along the width, [kernel, size] each."""
    found = []
    for axis in (0, 1):
        before, after = pads[2 - 2 * axis :][:2]
        num_outputs = size[axis] + before + after - dilation[axis] * (kernel[axis] - 1)
        first = torch.arange(kernel[axis])[:, None] * dilation[axis] - before
        place = torch.arange(size[axis])
        found.append(((place >= first) & (place < first + num_outputs)).to(device, dtype) / num_outputs)
    return found[0], found[1]


@lru_cache(maxsize=64)
def _shares(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A row of 1 / n."""
    return torch.full((1, count), 1 / count, dtype=dtype, device=device)


def mean_over_samples(x: Tensor) -> Tensor:
    """The mean over the first axis, [1, ...].

    As a product with a row of 1 / n: torch's own mean of images with their channels last takes ten times as long on a
    CPU, and was half of what a projection by mean inputs cost.
    """
    count = x.shape[0]  # in Python the length of a tensor costs a call
    if count > 0 and x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        last = x.permute(0, 2, 3, 1)
        means = _shares(count, x.dtype, x.device) @ last.reshape(count, -1)
        return means.reshape(1, *last.shape[1:]).permute(0, 3, 1, 2)
    if count > 0 and x.is_contiguous():
        return (_shares(count, x.dtype, x.device) @ x.reshape(count, -1)).reshape(1, *x.shape[1:])
    return x.mean(0, keepdim=True)


def _unfold_3d(x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """``functional.unfold`` for volumes, which torch lacks: [batch, in * kernel, positions]."""
    for axis, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True), start=2):
        reach = gap * (size - 1) + 1
        x = x.unfold(axis, reach, step)[..., ::gap]  # the window becomes a last axis of its own
    batch, channels = x.shape[:2]
    return x.permute(0, 1, 5, 6, 7, 2, 3, 4).reshape(batch, channels * kernel[0] * kernel[1] * kernel[2], -1)


@READERS.of(functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
def _conv_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Iterable[Meeting]:
    """Each pixel of the input is multiplied with a matrix, [in / groups, out / groups * kernel]; they are added up."""
    each, outputs = weight.shape[0] // groups, math.prod(weight.shape[1:])
    turned = Arrangement((groups, each, outputs), (0, 2, 1), (groups, outputs, each))

    def inputs(mean: bool) -> Tensor:
        x = precise(input if input.dim() == weight.dim() else input.unsqueeze(0)).flatten(2)  # [batch, in, positions]
        x = x.mean(0, keepdim=True) if mean else x
        return x.transpose(0, 1).reshape(groups, each, -1)

    found = [Meeting(weight, "matrix", inputs, turned, has_positions=True)]
    if bias is not None:
        added = bias
        dims = weight.dim() - 2
        settings = (_each(value, dims) for value in (stride, padding, output_padding, dilation))
        sizes = zip(input.shape[-dims:], weight.shape[2:], *settings, strict=True)
        pixels = [(n - 1) * step - 2 * pad + gap * (size - 1) + more + 1 for n, size, step, pad, more, gap in sizes]
        num_outputs = (len(input) if input.dim() == weight.dim() else 1) * math.prod(pixels) * len(bias)
        found.append(Meeting(bias, "entries", lambda mean: ones(added, num_outputs, mean)))
    return found
