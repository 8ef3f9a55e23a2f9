"""Image arrays in one form: real, finite pixels ``[n, channels, height, width]``; and data sets read into arrays."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from torch import Tensor

from ramet.data.raw import Array, Labelled, Layout, RawData
from ramet.errors import DataError, text_of

CHANNEL_COUNTS = (1, 3, 4)
"""How many channels an image usually has: grey, colour, colour with transparency."""

_LARGEST = 1e30  # squares and their sums stay finite in float64, standardised values in float32
_ROWS = 1024


def as_array(values: Any, place: str) -> Array:
    """A tensor, an array or nested lists as a NumPy array; nothing is copied where nothing must be.

    Raises:
        DataError: If the rows differ in length, or hold Python objects.
    """
    if isinstance(values, np.memmap):  # it knows its file, which an array does not
        return values
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
    """A view of images, ``[n, height, width]`` or four axes in either order, as ``[n, channels, height, width]``.

    Without a layout the shape decides: the channel axis is the one of 1, 3 or 4, or else the one smaller than both
    others.

    Raises:
        DataError: If the number of axes does not fit, or if the shape leaves the order open.

    >>> to_channels_first(np.zeros((5, 32, 32, 3)), None, "x").shape
    (5, 3, 32, 32)
    """
    if layout is not None and layout not in get_args(Layout):
        raise DataError(f"layout must be NHWC, NCHW or NHW, but got {layout!r}.")
    if images.ndim not in (3, 4):
        raise DataError(
            f"{place} must have the axes [n, height, width], [n, height, width, channels], "
            f"[n, channels, height, width] or [n, features], but has the shape {images.shape}."
        )
    if layout is not None and len(layout) != images.ndim:
        raise DataError(
            f"layout {layout} needs {len(layout)} axes, but {place} has {images.ndim}, of shape {images.shape}."
        )
    if images.ndim == 3:
        return images[:, None]
    layout = layout or _guess_layout(images, place)
    return images if layout == "NCHW" else images.transpose(0, 3, 1, 2)


def are_vectors(raw: RawData) -> bool:
    """Whether the rows of a source are vectors, ``[n, features]``, instead of images."""
    images = raw.train.images
    if not isinstance(images, np.ndarray):
        return bool(getattr(images, "is_flat", False))
    return images.ndim == 2 and raw.layout is None


def check_pixels(pixels: Array, place: str, values: str = "pixels", row: str = "image") -> None:
    """Refuse images, ``[n, channels, height, width]``, or vectors, ``[n, features]``, that no network can read.

    ``values`` and ``row`` are what an error calls their values and one of them.

    Raises:
        DataError: If there are none, or their dtype is not real, or a value is not finite or above 1e30.
    """
    if pixels.dtype.kind not in "buif":
        raise DataError(f"the {values} of {place} must be uint8, integers or floats, but are {pixels.dtype}.")
    if len(pixels) == 0:
        raise DataError(f"{place} must hold at least one {row}, but holds none.")
    if 0 in pixels.shape:
        raise DataError(f"the {row}s of {place} must have at least one {values[:-1]}, but the shape is {pixels.shape}.")
    if pixels.dtype.kind != "f":
        return
    for start in range(0, len(pixels), _ROWS):
        block = pixels[start : start + _ROWS]
        wrong = ~(np.abs(block) <= _LARGEST)  # NaN compares as False
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise DataError(
                f"the {values} of {place} must be finite, and at most 1e30, "
                f"but {row} {start + where[0]} has {block[where]} among its {values}."
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


def is_map_style(source: object) -> bool:
    """Whether an object can be read row by row and is not itself an array or a list of them."""
    return (
        hasattr(source, "__getitem__")
        and hasattr(source, "__len__")
        and not isinstance(source, (np.ndarray, Tensor, list, tuple, dict, str, bytes))
    )


def row_of(dataset: Any, index: int, place: str) -> Any:
    """A row of a data set, ``(image, label)``; a ``DataError`` if it raises, or gives something else."""
    try:
        row = dataset[index]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a data set of the user's own raises
        raise DataError(
            f"{place} must give every image, but raises {type(error).__name__} for {index}: {text_of(error)}"
        ) from error
    if not isinstance(row, (tuple, list)) or len(row) < 2:
        raise DataError(f"{place} must give (image, label) for each index, but {index} gives {type(row).__name__}.")
    return row


def materialise(dataset: Any, place: str) -> tuple[Labelled, Layout | None]:
    """Read every ``(image, label)`` of a data set; with the layout of the images where Pillow fixes it.

    Raises:
        DataError: If it is empty, if a row is no pair, or if images differ in size.
    """
    if len(dataset) == 0:
        raise DataError(f"{place} must hold at least one image, but holds none.")
    images: list[Array] = []
    labels: list[Any] = []
    from_pillow = True
    for index in range(len(dataset)):
        row = row_of(dataset, index, place)
        from_pillow = from_pillow and not isinstance(row[0], (Tensor, np.ndarray, list))
        image = as_array(row[0], f"image {index} of {place}")
        if images and image.shape != images[0].shape:
            raise DataError(
                f"all images of {place} must have one size, but image 0 has {images[0].shape} "
                f"and image {index} has {image.shape}; resize them in the data set."
            )
        if image.ndim not in (1, 2, 3):
            raise DataError(f"the inputs of {place} must have 1, 2 or 3 axes, but input {index} has {image.shape}.")
        images.append(image)
        label = row[1]
        labels.append(label.item() if isinstance(label, Tensor) and label.numel() == 1 else label)
    layout: Layout | None = None
    if from_pillow:
        layout = "NHWC" if images[0].ndim == 3 else "NHW"
    return Labelled(np.stack(images), as_array(labels, f"the labels of {place}"), place), layout
