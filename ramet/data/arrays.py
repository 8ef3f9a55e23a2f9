"""Image arrays in one form: real, finite pixels of shape ``[n, channels, height, width]``."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from torch import Tensor

from ramet.data.raw import Array, Layout
from ramet.errors import DataError

CHANNEL_COUNTS = (1, 3, 4)
"""How many channels an image usually has: grey, colour, colour with transparency."""

_LARGEST = 1e30  # squares and their sums stay finite in float64, standardised values in float32
_ROWS = 1024


def as_array(values: Any, place: str) -> Array:
    """A tensor, an array or nested lists as a NumPy array; nothing is copied where nothing must be.

    Raises:
        DataError: If the rows differ in length, or hold Python objects.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        # NumPy has no bfloat16.
        values = values.float().numpy() if values.is_floating_point() and values.itemsize < 4 else values.numpy()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise DataError(f"{place} must be an array with rows of one shape, but got {type(values).__name__}.") from error
    if array.dtype == object:
        raise DataError(f"{place} must hold numbers or text, but holds Python objects.")
    return array


def to_channels_first(images: Array, layout: Layout | None, place: str) -> Array:
    """A view of the images as ``[n, channels, height, width]``.

    Args:
        images: ``[n, height, width]`` or four axes in either order.
        layout: The order of the axes. None decides by the shape: the channel axis is the one of 1, 3 or 4, or
            else the one smaller than both others.
        place: What an error calls the images.

    Raises:
        DataError: If the number of axes does not fit, or if the shape leaves the order open.

    Example:
        >>> to_channels_first(np.zeros((5, 32, 32, 3)), None, "x").shape
        (5, 3, 32, 32)
    """
    if layout is not None and layout not in get_args(Layout):
        raise DataError(f"layout must be NHWC, NCHW or NHW, but got {layout!r}.")
    if images.ndim not in (3, 4):
        raise DataError(
            f"{place} must have the axes [n, height, width], [n, height, width, channels] or "
            f"[n, channels, height, width], but has the shape {images.shape}."
        )
    if layout is not None and len(layout) != images.ndim:
        raise DataError(
            f"layout {layout} needs {len(layout)} axes, but {place} has {images.ndim}, of shape {images.shape}."
        )
    if images.ndim == 3:
        return images[:, None]
    layout = layout or _guess_layout(images, place)
    return images if layout == "NCHW" else images.transpose(0, 3, 1, 2)


def check_pixels(pixels: Array, place: str) -> None:
    """Refuse images that no network can read.

    Args:
        pixels: ``[n, channels, height, width]``.
        place: What the error calls them.

    Raises:
        DataError: If there are none, or their dtype is not real, or a value is not finite or above 1e30.
    """
    if pixels.dtype.kind not in "buif":
        raise DataError(f"the pixels of {place} must be uint8, integers or floats, but are {pixels.dtype}.")
    if len(pixels) == 0:
        raise DataError(f"{place} must hold at least one image, but holds none.")
    if 0 in pixels.shape:
        raise DataError(f"the images of {place} must have at least one pixel, but the shape is {pixels.shape}.")
    if pixels.dtype.kind != "f":
        return
    for start in range(0, len(pixels), _ROWS):
        block = pixels[start : start + _ROWS]
        wrong = ~(np.abs(block) <= _LARGEST)  # NaN compares as False
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise DataError(
                f"the pixels of {place} must be finite, and at most 1e30, "
                f"but image {start + where[0]} has {block[where]} among its pixels."
            )


def _guess_layout(images: Array, place: str) -> Layout:
    _, first, middle, last = images.shape
    usual = first in CHANNEL_COUNTS, last in CHANNEL_COUNTS
    if usual == (False, False):
        usual = first < min(middle, last), last < min(first, middle)
    if usual == (True, False):
        return "NCHW"
    if usual == (False, True):
        return "NHWC"
    raise DataError(
        f"the shape of {place} must tell channels from height and width, but {images.shape} fits "
        f"{'both orders' if all(usual) else 'neither order'}; say layout='NCHW' or layout='NHWC'."
    )
