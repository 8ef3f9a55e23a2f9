"""Targets that are numbers: read, checked, and standardised by the training split."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ramet.data.raw import Array, RawData, Targets
from ramet.errors import DataError

Numbers = npt.NDArray[np.float64]


def are_numbers(raw: RawData, wanted: Targets | None) -> bool:
    """Whether the targets of a source are numbers: where it, or the user, says so, or where one is no whole number.

    Raises:
        DataError: the user says something else than the source, or no kind that there is.
    """
    if wanted not in (None, "classes", "numbers"):
        raise DataError(f"targets must be classes or numbers, but got {wanted!r}.")
    said = raw.targets or ("classes" if raw.class_names is not None else None)
    if said is not None:
        if wanted not in (None, said):
            raise DataError(f"the targets of {raw.name} are {said}, but got targets={wanted!r}.")
        return said == "numbers"
    if wanted is not None:
        return wanted == "numbers"
    parts = [raw.train] if raw.test is None else [raw.train, raw.test]
    return any(_has_fraction(part.labels) for part in parts)


def number_targets(raw: RawData) -> list[Numbers]:
    """The numbers of the training rows and of the source's own test rows, where it has any: ``[n]`` or ``[n, k]``.

    Raises:
        DataError: there is not one row for each input, a number is not finite, or training and test differ in shape.
    """
    parts = [raw.train] if raw.test is None else [raw.train, raw.test]
    columns = []
    for part in parts:
        labels = part.labels
        if labels.dtype.kind not in "biuf":
            raise DataError(f"the targets of {part.place} must be numbers, but are {labels.dtype}.")
        if labels.ndim not in (1, 2) or 0 in labels.shape[1:]:
            raise DataError(f"the targets of {part.place} must have the axes [n] or [n, k], but have {labels.shape}.")
        if len(labels) != len(part.images):
            raise DataError(
                f"there must be targets for each row of {part.place}, "
                f"but there are {len(part.images)} rows and {len(labels)} targets."
            )
        values = labels.astype(np.float64)
        wrong = ~(np.abs(values) <= 1e30)  # NaN compares as False
        if wrong.any():
            raise DataError(
                f"the targets of {part.place} must be finite, and at most 1e30, but one is {values[wrong][0]}."
            )
        columns.append(values)
    if len({values.shape[1:] for values in columns}) > 1:
        shapes = " and ".join(str(values.shape) for values in columns)
        raise DataError(f"training and test targets must have as many numbers a row, but have the shapes {shapes}.")
    return columns


def target_statistics(values: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation of each number of the training targets; one that is constant has the deviation 1."""
    columns = values.reshape(len(values), -1)
    mean = np.array([math.fsum(column) / len(column) for column in columns.T])
    square = np.array([math.fsum((column - m) ** 2) / len(column) for column, m in zip(columns.T, mean, strict=True)])
    deviation = np.sqrt(square)
    # As for the channels of images: rounding leaves a constant one a deviation near 1e-16 of its mean.
    return mean, np.where(deviation <= 1e-7 * np.abs(mean), 1.0, deviation)


def standardised(values: Numbers, mean: Numbers, deviation: Numbers) -> npt.NDArray[np.float32]:
    """Targets less the mean and divided by the deviation of each number, in float32."""
    columns = (values.reshape(len(values), -1) - mean) / deviation
    return columns.reshape(values.shape).astype(np.float32)


def _has_fraction(labels: Array) -> bool:
    if labels.dtype.kind != "f":
        return False
    whole: Any = labels == np.floor(labels)
    return not bool(whole.all())
