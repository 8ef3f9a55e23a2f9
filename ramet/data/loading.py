"""The front door: any source of images becomes one data set with three splits."""

from __future__ import annotations

import numpy as np
import torch

from ramet.data.dataset import DataSet, Split
from ramet.data.preparation import channel_statistics, standardise
from ramet.data.splits import hold_out
from ramet.errors import DataError


def load(
    source: str = "digits",
    *,
    seed: int = 0,
    validation_fraction: float = 0.2,
    test_fraction: float = 0.2,
) -> DataSet:
    """Load a data set: read, split by the seed, standardise by the training split.

    Example:
        >>> digits = load("digits")
        >>> digits.train.x.shape[1:], digits.num_classes
        (torch.Size([1, 8, 8]), 10)
    """
    if source != "digits":
        raise DataError(f"only digits is known, but got {source!r}.")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels, labels = bunch.images[:, None], bunch.target.astype(np.int64)
    names = tuple(str(digit) for digit in range(10))
    rest, test = hold_out(labels, test_fraction, seed=seed, role="test", class_names=names, min_kept=2)
    kept, cut = hold_out(labels[rest], validation_fraction, seed=seed, role="validation", class_names=names)
    size = (8, 8)
    mean, deviation = channel_statistics(pixels, rest[kept], size)
    train, validation, held_out = (
        Split(standardise(pixels, rows, size, mean, deviation), torch.from_numpy(labels[rows]))
        for rows in (rest[kept], rest[cut], test)
    )
    return DataSet(
        "digits", train, validation, held_out, 10, names, (), tuple(mean.tolist()), tuple(deviation.tolist())
    )
