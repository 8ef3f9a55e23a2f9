"""Class folders of photographs of any size, cut to one size as they are read: how ImageNet is trained on.

``load(ImageFolderStream.pair("imagenet"))``, or ``--data image-folder:imagenet`` on the command line. Images are read
by Pillow (the extra ``images``) when a batch asks for them.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ramet.data.folders import _image_files, _read_file
from ramet.data.raw import Array
from ramet.errors import DataError, MissingExtraError

TRAIN, TEST = ("train",), ("val", "validation", "test")
"""What the folders of training images, and of those that are measured, may be called."""


class ImageFolderStream(Dataset[Any]):
    """Images of class folders as ``(image, label)``: bytes of shape [size, size, 3], and the class's place by name.

    For training, a rectangle of 8 to 100 % of the area and sides of 3:4 to 4:3 is drawn, scaled to the size, and
    mirrored half of the time. For measuring, the shorter side is scaled to 8/7 of the size, and the middle cut out (256
    and 224 in the usual setting). What is drawn comes from Python's ``random``, which ``ramet.data`` seeds for each
    image and step.

    Args:
        folder: holds a folder for each class.
        size: height and width of what is given; 224 for ImageNet.
        training: whether images are cut at random.

    Raises:
        DataError: there are no class folders, or a file cannot be read.
        MissingExtraError: Pillow is not installed.

    Reference: the evaluation of DARTS (Liu, Simonyan and Yang, 2019, section 3.3), whose changes of colours are left
    out.
    """

    draws = True
    """Whether each reading may give another image, so that they are not read once and kept."""

    def __init__(self, folder: str | Path, size: int = 224, *, training: bool = True) -> None:
        if size < 1:
            raise DataError(f"the size of images must be at least 1, but got {size}.")
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingExtraError("Pillow", "images") from error
        del Image
        self.size, self.training, self.draws = size, training, training
        self._paths = _image_files(Path(folder))
        self.classes = sorted({path.parent.name for path in self._paths})
        places = {name: place for place, name in enumerate(self.classes)}
        self.targets = [places[path.parent.name] for path in self._paths]

    @classmethod
    def pair(cls, folder: str | Path, size: int = 224) -> tuple[ImageFolderStream, ImageFolderStream]:
        """The streams of ``folder/train`` and ``folder/val``, to train and to test; both must have the same classes."""
        root = Path(folder)
        parts = []
        for names in (TRAIN, TEST):
            found = [root / name for name in names if (root / name).is_dir()]
            if not found:
                raise DataError(f"{folder} must hold a folder called {' or '.join(names)}, but has none.")
            parts.append(found[0])
        train, test = cls(parts[0], size), cls(parts[1], size, training=False)
        if train.classes != test.classes:
            other = sorted(set(train.classes) ^ set(test.classes))[0]
            raise DataError(f"{parts[0]} and {parts[1]} must have the same classes, but {other!r} is in one of them.")
        return train, test

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> tuple[Array, int]:
        """An image and its label."""
        return self.cut(_read_file(self._paths[row])), self.targets[row]

    def cut(self, image: Array) -> Array:
        """An image, [height, width] or [height, width, 3] of bytes, as one of the wanted size."""
        from PIL import Image

        whole = image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)
        height, width = whole.shape[:2]
        left, top, across, down = drawn_box(width, height) if self.training else middle_box(width, height)
        picture = Image.fromarray(whole.astype(np.uint8)).resize(
            (self.size, self.size), Image.Resampling.BILINEAR, box=(left, top, left + across, top + down)
        )
        found: Array = np.asarray(picture)
        if self.training and random.random() < 0.5:
            found = np.ascontiguousarray(found[:, ::-1])
        return found


Box = tuple[float, float, float, float]
"""Left, top, width and height of a part of an image."""


def drawn_box(width: int, height: int, attempts: int = 10) -> Box:
    """A part of 8 to 100 % of the area, its sides as 3:4 to 4:3; the middle if none of some attempts fits."""
    for _ in range(attempts):
        area = random.uniform(0.08, 1.0) * width * height
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if across <= width and down <= height:
            return random.uniform(0, width - across), random.uniform(0, height - down), across, down
    side = min(width, height)
    return (width - side) / 2, (height - side) / 2, side, side


def middle_box(width: int, height: int) -> Box:
    """The square in the middle whose side is 7/8 of the shorter one: 224 of 256 pixels.

    >>> middle_box(512, 256)
    (144.0, 16.0, 224.0, 224.0)
    """
    side = min(width, height) * 7 / 8
    return (width - side) / 2, (height - side) / 2, side, side


def image_folder(folder: str, size: int = 224) -> tuple[ImageFolderStream, ImageFolderStream]:
    """Photographs of any size in class folders below train and val, cut to one size as they are read.

    Args:
        folder: holds both.
        size: height and width of what is given.
    """
    return ImageFolderStream.pair(folder, size)
