"""A folder of class folders, or a folder with ``train`` and ``test`` of class folders.

Images are read by Pillow (the extra ``images``); ``.npy`` files, one image each, need nothing. Image files of several
sizes are scaled and cut to one where the user names it.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data.array_header import read_array_file
from ramet.data.arrays import to_channels_first
from ramet.data.memory import fits_in_memory, require_room
from ramet.data.one_size import brought_to, several_sizes
from ramet.data.raw import Array, Labelled, Layout, RawData, require_file
from ramet.errors import DataError, MissingExtraError

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".npy", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
_LITTER = frozenset({"thumbs.db", "desktop.ini"})  # what desktops leave behind; hidden files are skipped as well


Size = tuple[int, int]
"""Height and width."""


def from_folder(
    folder: Path, layout: Layout | None = None, in_memory: bool | None = True, size: Size | None = None
) -> RawData:
    """Read class folders; a class is named by its folder.

    ``in_memory`` says whether all images are read now; none decides by what they would take. ``size``, a height and a
    width, is what image files of several sizes are brought to; those of one size stay as they are.

    Raises:
        DataError: If there are no class folders, an empty one, a file that is no image, or images of several sizes and
            no size to bring them to.
        MissingExtraError: If there are image files and Pillow is not installed.
    """
    names = {child.name for child in _folders(folder)}
    roles = ("train", "test") if {"train", "test"} <= names else ()
    if roles and len(names) > 2:
        other = min(names - set(roles))
        raise DataError(f"a folder with train and test must hold no other folder, but {folder} has {other!r}.")
    places = [folder / role for role in roles] or [folder]
    files = [_image_files(place) for place in places]
    whole = [path for part in files for path in part]
    notes: tuple[str, ...] = ()
    if size is not None and several_sizes(whole):
        notes = (f"images of several sizes, scaled and cut in the middle to {_size(size)}",)
    else:
        size = None
    train, order = _read_classes(places[0], files[0], layout, in_memory, size)
    if not roles:
        return RawData(folder.name, train=train, layout=order, notes=notes)
    test, test_order = _read_classes(places[1], files[1], layout, isinstance(train.images, np.ndarray), size)
    if train.images.ndim != test.images.ndim:
        raise DataError(f"the images of {folder} must be all grey or all coloured, but training and test differ.")
    if order != test_order:
        raise DataError(f"the images of {folder} must have one layout, but training and test differ.")
    return RawData(folder.name, train=train, test=test, layout=order, notes=notes)


def _read_classes(
    folder: Path, paths: list[Path], layout: Layout | None, in_memory: bool | None, size: Size | None
) -> tuple[Labelled, Layout | None]:
    labels = np.array([path.parent.name for path in paths])
    if not in_memory:
        pixels = FolderPixels(paths, layout, size)
        if in_memory is False or not fits_in_memory(pixels.shape):
            return Labelled(pixels, labels, str(folder)), None
    first = _read_file(paths[0], to=size)
    require_room(len(paths) * first.nbytes, str(folder))  # all have its size; another one is refused undecoded
    images, num_bytes = [first], first.nbytes
    for path in paths[1:]:
        images.append(_read_file(path, first.shape[:2] if size is None else None, paths[0], to=size))
        num_bytes += images[-1].nbytes
        require_room(num_bytes, str(folder))
    if all(path.suffix.lower() != ".npy" for path in paths):
        if len({image.ndim for image in images}) > 1:
            require_room(3 * len(images) * min(image.nbytes for image in images), str(folder))
            images = [np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image for image in images]
        layout = "NHWC" if images[0].ndim == 3 else "NHW"  # known, whatever the sizes look like
    for image, path in zip(images, paths, strict=True):
        if image.shape != images[0].shape:
            raise DataError(
                f"all images must have one size, but {paths[0]} has {_size(images[0].shape)} "
                f"and {path} has {_size(image.shape)}."
            )
        if image.dtype != images[0].dtype:
            raise DataError(
                f"all images must have one dtype, but {paths[0]} has {images[0].dtype} and {path} has {image.dtype}."
            )
    return Labelled(np.stack(images), labels, str(folder)), layout


def _image_files(folder: Path) -> list[Path]:
    """The files of all class folders, class by class."""
    classes = _folders(folder)
    loose = [child for child in _visible(folder) if child.is_file() and child.suffix.lower() in IMAGE_SUFFIXES]
    if loose:
        raise DataError(f"each image must lie in the folder of its class, but {loose[0]} lies beside them.")
    if not classes:
        raise DataError(f"a folder of images must hold a folder for each class, but {folder} holds none.")
    paths: list[Path] = []
    for child in classes:
        files = _visible(child)
        if not files:
            raise DataError(f"each class must have at least one image, but the folder {child} is empty.")
        if folders := [path for path in files if path.is_dir()]:
            raise DataError(f"a class folder must hold images only, but {folders[0]} is a folder.")
        paths += files
    return paths


class FolderPixels:
    """Images that stay in their files, and are read when they are asked for.

    The first image decides whether they are grey or coloured; grey ones among coloured ones become coloured.
    """

    ndim = 4

    def __init__(self, paths: list[Path], layout: Layout | None, size: Size | None = None) -> None:
        self._paths, self._layout, self._size = paths, layout, size
        one = self._arranged(_read_file(paths[0], to=size), paths[0])
        self.shape, self.dtype = (len(paths), *one.shape), one.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        images = []
        for row in rows:
            path = self._paths[int(row)]
            image = self._arranged(_read_file(path, to=self._size), path)
            if image.shape[0] == 1 < self.shape[1] == 3:
                image = np.repeat(image, 3, axis=0)
            if image.shape != self.shape[1:] or image.dtype != self.dtype:
                raise DataError(
                    f"all images must have one size and dtype, but {self._paths[0]} has {self.shape[1:]} {self.dtype} "
                    f"and {path} has {image.shape} {image.dtype}."
                )
            images.append(image)
        return np.stack(images)

    def _arranged(self, image: Array, path: Path) -> Array:
        """``[channels, height, width]``."""
        layout = self._layout
        if path.suffix.lower() != ".npy":
            layout = "NHWC" if image.ndim == 3 else "NHW"
        arranged: Array = to_channels_first(image[None], layout, str(path))[0]
        return arranged


def _read_file(
    path: Path, size: tuple[int, ...] | None = None, like: Path | None = None, to: Size | None = None
) -> Array:
    """One image; with a size, which the file ``like`` has, another one is refused, and ``to`` is what it is cut to."""
    if path.suffix.lower() == ".npy":
        return _read_array(path)
    image = _read_image(path, size, like, to)
    return image if to is None else brought_to(image, to)


def _read_image(path: Path, size: tuple[int, ...] | None, like: Path | None, to: Size | None = None) -> Array:
    """``[height, width]`` of a grey image, ``[height, width, 3]`` of any other; bytes, or floats of deep grey."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Pillow", "images") from error
    require_file(path)
    try:
        with warnings.catch_warnings():
            # Pillow looks at the header, and only warns of what would take a quarter of a gigabyte or more.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(path)
        with image:
            if size is not None and (image.height, image.width) != size:
                found = _size((image.height, image.width))
                raise DataError(
                    f"all images must have one size, but {like} has {_size(size)} and {path} has {found}; "
                    "image_size (--image-size) brings them to one."
                )
            if to is not None:  # a photograph need not be decoded whole: twice the size is enough to scale from
                image.draft(None, (2 * to[1], 2 * to[0]))
            if image.mode in ("1", "L", "LA"):
                return np.asarray(image.convert("L"))
            if image.mode == "F" or image.mode.startswith("I"):
                return np.asarray(image, dtype=np.float32)
            return np.asarray(image.convert("RGB"))
    except DataError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(
            f"an image must have at most {Image.MAX_IMAGE_PIXELS:,} pixels, but {path} says that it has more."
        ) from error
    # Pillow raises all of these for damaged files, depending on the format.
    except (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, struct.error, MemoryError) as error:
        raise DataError(f"a class folder must hold images only, but {path} cannot be read as one.") from error


def _read_array(path: Path) -> Array:
    array = read_array_file(path)
    if array.ndim not in (2, 3):
        raise DataError(f"{path} must hold one image, [height, width] or with channels, but does not.")
    return array


def _folders(folder: Path) -> list[Path]:
    return [child for child in _visible(folder) if child.is_dir()]


def _visible(folder: Path) -> list[Path]:
    by_name: Callable[[Path], str] = lambda child: child.name  # noqa: E731 - Path itself sorts without case on some systems
    try:
        children = sorted(folder.iterdir(), key=by_name)
    except OSError as error:
        raise DataError(f"a folder of images must be readable, but {folder} is not: {error.strerror}.") from error
    return [child for child in children if not child.name.startswith(".") and child.name.lower() not in _LITTER]


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
