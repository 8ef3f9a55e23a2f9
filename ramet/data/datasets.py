"""A map-style torch ``Dataset`` read once into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ramet.data.arrays import as_array
from ramet.data.raw import Array, Labelled, Layout
from ramet.errors import DataError


def is_map_style(source: object) -> bool:
    """Whether an object can be read row by row and is not itself an array or a list of them."""
    return (
        hasattr(source, "__getitem__")
        and hasattr(source, "__len__")
        and not isinstance(source, (np.ndarray, Tensor, list, tuple, dict, str, bytes))
    )


def materialise(dataset: Any, place: str) -> tuple[Labelled, Layout | None]:
    """Read every ``(image, label)`` of a data set.

    Args:
        dataset: Anything with ``len`` and an index; images are tensors, arrays or Pillow images of one size.
        place: What an error calls it.

    Returns:
        The images with their labels, and their layout where Pillow fixes it.

    Raises:
        DataError: If it is empty, if a row is no pair, or if images differ in size.
    """
    if len(dataset) == 0:
        raise DataError(f"{place} must hold at least one image, but holds none.")
    images: list[Array] = []
    labels: list[Any] = []
    from_pillow = True
    for index in range(len(dataset)):
        row = dataset[index]
        if not isinstance(row, (tuple, list)) or len(row) < 2:
            raise DataError(f"{place} must give (image, label) for each index, but {index} gives {type(row).__name__}.")
        from_pillow = from_pillow and not isinstance(row[0], (Tensor, np.ndarray, list))
        image = as_array(row[0], f"image {index} of {place}")
        if images and image.shape != images[0].shape:
            raise DataError(
                f"all images of {place} must have one size, but image 0 has {images[0].shape} "
                f"and image {index} has {image.shape}; resize them in the data set."
            )
        if image.ndim not in (2, 3):
            raise DataError(f"the images of {place} must have 2 or 3 axes, but image {index} has {image.shape}.")
        images.append(image)
        label = row[1]
        labels.append(label.item() if isinstance(label, Tensor) and label.numel() == 1 else label)
    layout: Layout | None = None
    if from_pillow:
        layout = "NHWC" if images[0].ndim == 3 else "NHW"
    return Labelled(np.stack(images), as_array(labels, f"the labels of {place}"), place), layout
