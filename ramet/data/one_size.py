"""Image files of several sizes, brought to one: the photographs that people have.

An image is scaled, its sides in proportion, until it just covers the wanted size, and what stands out is cut off on
both sides alike. No pixel is invented at the edges and nothing is squeezed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ramet.data.raw import Array
from ramet.errors import MissingExtraError


def several_sizes(paths: list[Path]) -> bool:
    """Whether image files have different sizes, by their headers; what cannot be read as an image is left to readers.

    Arrays (``.npy``) are not scaled: what their numbers mean is not known.
    """
    if any(path.suffix.lower() == ".npy" for path in paths):
        return False
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Pillow", "images") from error
    first: tuple[int, int] | None = None
    for path in paths:
        try:
            with Image.open(path) as image:
                size = image.size
        except Exception:  # Pillow raises nearly anything for a damaged file; reading it says what is wrong
            continue
        if first is not None and size != first:
            return True
        first = size
    return False


def brought_to(image: Array, size: tuple[int, int]) -> Array:
    """An image, ``[height, width]`` or ``[height, width, 3]``, as one of this height and width.

    Pillow's ``resize`` takes a mean over what a pixel covers, so that fine patterns do not become coarse ones.
    """
    from PIL import Image

    height, width = image.shape[:2]
    box = middle_part(height, width, *size)
    picture = Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR, box=box)
    found: Array = np.asarray(picture)
    return found


def middle_part(height: int, width: int, to_height: int, to_width: int) -> tuple[float, float, float, float]:
    """Left, upper, right and lower edge of the largest part in the middle whose sides are as those that are wanted.

    >>> middle_part(100, 400, 10, 20)
    (100.0, 0.0, 300.0, 100.0)
    """
    scale = min(height / to_height, width / to_width)
    down, across = scale * to_height, scale * to_width
    left, top = (width - across) / 2, (height - down) / 2
    return left, top, left + across, top + down
