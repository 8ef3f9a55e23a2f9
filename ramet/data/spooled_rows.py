"""Data that come one after the other, written to a spool in one pass: images as they come, their labels beside."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader

from ramet.data.array_writer import ArrayWriter, require_disk
from ramet.data.arrays import as_array, check_pixels
from ramet.data.iterables import Row, length_of, rows_of
from ramet.data.raw import Array, Labelled, Layout
from ramet.data.spool import SpoolWriter, spooled
from ramet.errors import DataError
from ramet.runs.encoding import Json

_LABELS = 4096  # that become one array at a time: as objects of Python they take four times as much


def spool_rows(source: Any, place: str, folder: Path, part: str) -> tuple[Labelled, Layout | None]:
    """The rows of an iterable data set or a loader as mapped arrays; with the layout where Pillow fixes it.

    Args:
        source: gives ``(image, label)``, or batches of them; read only if the folder does not have them yet.
        place: what an error calls it.
        folder: the user's.
        part: which of its folders.

    Raises:
        DataError: as ``rows_of`` and ``spooled``; or images differ in size or in their type of numbers.
    """
    said = length_of(source)
    what = {"source": _class_of(source), "length": said}
    found = spooled(folder, part, what, partial(_write_rows, rows_of(source, place), said, place))
    return Labelled(found.array("x"), found.array("y"), place), found.facts["layout"]


def _class_of(source: Any) -> str:
    """What kind of data it is; batches may have another size the next time."""
    data, kind = (source.dataset, "DataLoader of ") if isinstance(source, DataLoader) else (source, "")
    return f"{kind}{type(data).__qualname__}"


def _write_rows(rows: Iterator[Row], said: int | None, place: str, writer: SpoolWriter) -> Json:
    images: ArrayWriter | None = None
    labels = _Labels(writer, f"the labels of {place}")
    from_pillow = True
    for number, (given, label) in enumerate(rows):
        from_pillow = from_pillow and not isinstance(given, (Tensor, np.ndarray, list))
        image = as_array(given, f"image {number} of {place}")
        if images is None:
            if image.ndim not in (1, 2, 3):
                raise DataError(f"the inputs of {place} must have 1, 2 or 3 axes, but input 0 has {image.shape}.")
            check_pixels(np.zeros_like(image[None]), place)  # their values are looked at when they are read
            require_disk(writer.folder, (said or 0) * image.nbytes)
            images = writer.array("x", image.dtype, image.shape)
        if (image.shape, image.dtype) != (images.shape, images.dtype):
            raise DataError(
                f"all images of {place} must have one size and dtype, but image 0 has {images.shape} {images.dtype} "
                f"and image {number} has {image.shape} {image.dtype}; make them equal in the data set."
            )
        images.append(image[None])
        labels.append(label.item() if isinstance(label, Tensor) and label.numel() == 1 else label)
    if images is None:
        raise DataError(f"{place} must hold at least one image, but holds none.")
    labels.finish()
    layout = ("NHWC" if len(images.shape) == 3 else "NHW") if from_pillow else None
    return {"layout": layout}


class _Labels:
    """Labels as they come: single ones are kept until the end, rows of them (of tokens) are written with the inputs.

    What type single ones have is known at the end only: whole numbers may be followed by one with a fraction.
    """

    def __init__(self, writer: SpoolWriter, place: str) -> None:
        self._writer, self._place = writer, place
        self._pending, self._columns = list[Any](), list[Array]()
        self._rows: ArrayWriter | None = None

    def append(self, label: Any) -> None:
        self._pending.append(label)
        if len(self._pending) == _LABELS:
            self._gather()

    def finish(self) -> None:
        self._gather()
        if self._columns:
            whole = np.concatenate(self._columns)
            self._writer.array("y", whole.dtype, whole.shape[1:]).append(whole)

    def _gather(self) -> None:
        if not self._pending:
            return
        block = as_array(self._pending, self._place)
        self._pending = []
        if block.ndim == 1 and self._rows is None:
            self._columns.append(block)
            return
        if self._rows is None and not self._columns:
            self._rows = self._writer.array("y", block.dtype, block.shape[1:])
        if self._rows is None or (block.shape[1:], block.dtype) != (self._rows.shape, self._rows.dtype):
            raise DataError(f"{self._place} must have one shape and dtype, but some have others.")
        self._rows.append(block)
