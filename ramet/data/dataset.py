"""What a data set is here: three splits of images and labels that sit in memory as tensors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ramet.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, row by row; a batch is an index lookup.

    ``x`` are standardised images, float32 of shape ``[n, channels, height, width]``, ``y`` their classes, int64 of
    shape ``[n]``, from 0 to the number of classes - 1.
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.ndim != 4 or self.x.dtype != torch.float32:
            raise DataError(
                "the images of a split must be float32 of shape [n, channels, height, width], "
                f"but got {self.x.dtype} of shape {tuple(self.x.shape)}."
            )
        if self.y.ndim != 1 or self.y.dtype != torch.int64 or len(self.y) != len(self.x):
            raise DataError(
                f"the labels of a split of {len(self.x)} images must be int64 of shape [{len(self.x)}], "
                f"but got {self.y.dtype} of shape {tuple(self.y.shape)}."
            )

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class DataSet:
    """A classification task: training, validation and test images of one size.

    Training data fit weights, validation data choose between models, test data only report.

    Attributes:
        name: What it is called in records and reports.
        class_names: The name of each class as the source gave it; empty where nobody named them.
        class_groups: The superclass of each class (CIFAR-100, Omniglot); empty where there is none.
        mean: What was subtracted from each channel, in the units of the source (bytes are divided by 255).
        deviation: What each channel was divided by afterwards.
        notes: Sentences that a reader of results should know, such as "1 of the 5 training files".
    """

    name: str
    train: Split
    validation: Split
    test: Split
    num_classes: int
    class_names: tuple[str, ...] = ()
    class_groups: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for role, split in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            labels = split.y
            if labels.numel() and not labels.is_floating_point() and self.num_classes > 0:
                for found in (int(labels.min()), int(labels.max())):
                    if not 0 <= found < self.num_classes:
                        raise DataError(
                            f"the labels of {self.name} must lie between 0 and {self.num_classes - 1}, but one of "
                            f"{role} is {found}."
                        )

    _hashed: ClassVar[tuple[str, str, str]] = ("data", "classes", "<f4")

    @property
    def in_channels(self) -> int:
        """The number of channels of an image."""
        return int(self.train.x.shape[1])

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of an image."""
        return int(self.train.x.shape[2]), int(self.train.x.shape[3])

    def fingerprint(self) -> str:
        """A sha256 of the content of all splits, the same on every platform; names and notes do not count.

        Two data sets with one fingerprint give the same training, so that it can key a cache of results.
        """
        kind, classes, dtype = self._hashed
        digest = hashlib.sha256(f"ramet {kind} 1, {self.num_classes} {classes}".encode())
        for role, split in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            digest.update(f"\n{role} {tuple(split.x.shape)}\n".encode())
            inputs = split.x.cpu() if isinstance(split.x, Tensor) else split.x.sample(64)  # not gigabytes of files
            digest.update(np.ascontiguousarray(inputs.numpy(), dtype=dtype).data)
            digest.update(np.ascontiguousarray(split.y.cpu().numpy(), dtype="<i8").data)
        return digest.hexdigest()

    def __str__(self) -> str:
        height, width = self.image_size
        return (
            f"{self.name}: {self.num_classes} classes, {self.in_channels} x {height} x {width}, "
            f"{len(self.train)} / {len(self.validation)} / {len(self.test)} images to train, validate and test"
        )


def on_device(data: DataSet, device: str) -> DataSet:
    """The data set with its tensors on a device; a ``ConfigError`` if torch cannot use the device here."""

    def moved(split: Split) -> Split:
        return replace(split, x=split.x.to(device), y=split.y.to(device))  # also for a kind of split of its own

    try:
        torch.zeros(1, device=device).cpu()  # to and fro, because the device called meta takes values and gives none
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).splitlines()[0]
        raise ConfigError(f"device must be one that torch can use here, but {device!r} is not: {first_line}") from None
    if device == "cpu":
        return data
    return replace(data, train=moved(data.train), validation=moved(data.validation), test=moved(data.test))
