"""Labels of any kind as classes 0 to K - 1, with their names kept."""

from __future__ import annotations

import numpy as np

from ramet.data.raw import Array, RawData
from ramet.data.splits import Indices
from ramet.errors import DataError


def encode(raw: RawData) -> tuple[list[Indices], tuple[str, ...]]:
    """The classes of the training labels and of the source's own test labels, where it has any, and their names.

    Integers are ordered by value and strings by their characters; a class is named by what it was called. Where the
    format fixes the classes, the labels are the classes.

    Raises:
        DataError: If the labels are not one for each image, or of a wrong dtype, or out of range; if there are
            fewer than two classes, or a class that has no training images.
    """
    parts = [raw.train] if raw.test is None else [raw.train, raw.test]
    columns = []
    for part in parts:
        labels = _column(part.labels, f"the labels of {part.place}")
        if len(labels) != len(part.images):
            raise DataError(
                f"there must be a label for each image of {part.place}, "
                f"but there are {len(part.images)} images and {len(labels)} labels."
            )
        if raw.class_names is not None:
            _check_range(labels, len(raw.class_names), part.place)
        columns.append(labels)
    kinds = {labels.dtype.kind for labels in columns}
    if len(kinds) > 1:
        raise DataError(f"the labels of {raw.name} must be all numbers or all text, but training and test differ.")

    if raw.class_names is None:
        classes = np.unique(np.concatenate(columns))
        names = tuple(str(value) for value in classes.tolist())
        columns = [np.searchsorted(classes, labels) for labels in columns]
    else:
        names = raw.class_names
    codes = [labels.astype(np.int64) for labels in columns]

    if len(names) < 2:
        raise DataError(f"{raw.name} must have at least 2 classes, but has only {names[0]!r}.")
    empty = np.flatnonzero(np.bincount(codes[0], minlength=len(names)) == 0)
    if len(empty):
        raise DataError(
            f"each class of {raw.name} must have training images, but {len(empty)} of {len(names)} "
            f"have none, {names[empty[0]]!r} first."
        )
    return codes, names


def _column(labels: Array, place: str) -> Array:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # as some libraries store CIFAR
    if labels.ndim != 1:
        raise DataError(f"{place} must have one axis, [n], but have the shape {labels.shape}.")
    kind = labels.dtype.kind
    if kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{place} must be UTF-8 where they are bytes: {error.reason}.") from error
    if kind in ("U", "i"):
        return labels
    if kind in ("b", "u"):
        if kind == "u" and len(labels) and int(labels.max()) > np.iinfo(np.int64).max:
            raise DataError(f"{place} must fit into 64 bits with a sign, but the largest is {labels.max()}.")
        return labels.astype(np.int64)
    if kind == "f":
        # Beyond 2^53 neighbouring whole numbers are the same float.
        wrong = ~((np.abs(labels) <= 2.0**53) & (labels == np.floor(labels)))
        if wrong.any():
            raise DataError(f"{place} must be whole numbers where they are floats, but one is {labels[wrong][0]}.")
        return labels.astype(np.int64)
    raise DataError(f"{place} must be integers, text or whole floats, but are {labels.dtype}.")


def _check_range(labels: Array, num_classes: int, place: str) -> None:
    if labels.dtype.kind == "U":
        raise DataError(f"the labels of {place} must be numbers from 0 to {num_classes - 1}, but are text.")
    wrong = (labels < 0) | (labels >= num_classes)
    if wrong.any():
        raise DataError(
            f"the labels of {place} must lie between 0 and {num_classes - 1}, but one is {labels[wrong][0]}."
        )
