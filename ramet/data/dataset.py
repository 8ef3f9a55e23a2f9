"""What a data set is here: three splits of inputs and targets, tensors in memory or what stands for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ramet.data.form import InputForm
from ramet.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and their targets, row by row; a batch is an index lookup.

    ``x`` are float32 of shape ``[n, ...]``: standardised images ``[n, channels, height, width]``, vectors
    ``[n, features]``; or tokens, int64 of shape ``[n, length]``. ``y`` are classes, int64 of shape ``[n]``, from 0 to
    the number of classes - 1; of tokens also a class for each, int64 of shape ``[n, length]``, or for each of k places
    that the network tells, ``[n, k]``; or numbers, float32 of shape ``[n]`` or ``[n, k]``. What is read as it is asked
    for, ``StoredInputs`` and ``StoredTokens``, stands where a tensor does.

    Raises:
        DataError: a shape or a dtype is another, or a target is not finite.
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        is_tokens = self.x.dtype == torch.int64 and self.x.ndim == 2
        if not is_tokens and (self.x.ndim < 2 or self.x.dtype != torch.float32):
            raise DataError(
                "the inputs of a split must be float32 of shape [n, ...], images [n, channels, height, width] for "
                f"example, or tokens, int64 [n, length], but got {self.x.dtype} of shape {tuple(self.x.shape)}."
            )
        is_placed = is_tokens and self.y.ndim == 2 and len(self.y) == len(self.x)
        is_classes = self.y.dtype == torch.int64 and (is_placed or tuple(self.y.shape) == (len(self.x),))
        is_numbers = self.y.dtype == torch.float32 and self.y.ndim in (1, 2) and len(self.y) == len(self.x)
        if not is_classes and not is_numbers:
            shapes = f"[{len(self.x)}]" + (f" or [{len(self.x)}, k]" if is_tokens else "")
            raise DataError(
                f"the targets of a split of {len(self.x)} inputs must be classes, int64 of shape {shapes}, or numbers, "
                f"float32 with {len(self.x)} rows, but got {self.y.dtype} of shape {tuple(self.y.shape)}."
            )
        if is_numbers and not bool((finite := self.y.isfinite()).all()):
            raise DataError(f"the targets of a split must be finite, but one is {float(self.y[~finite][0])}.")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shapes = f"x {list(self.x.shape)} {self.x.dtype}, y {list(self.y.shape)} {self.y.dtype}"
        return f"{type(self).__name__}({shapes.replace('torch.', '')})"


@dataclass(frozen=True, eq=False)
class DataSet:
    """A task: inputs of one form to train, validate and test with, and targets that are classes or numbers.

    Training data fit weights, validation data choose between models, test data only report.

    Attributes:
        name: What it is called in records and reports.
        num_classes: How many classes there are; 0 where targets are numbers.
        class_names: The name of each class as the source gave it; empty where nobody named them.
        class_groups: The superclass of each class (CIFAR-100, Omniglot); empty where there is none.
        mean: What was subtracted from each channel, in the units of the source (bytes are divided by 255).
        deviation: What each channel was divided by afterwards.
        notes: Sentences that a reader of results should know, such as "1 of the 5 training files".
        target_mean: What was subtracted from each number of the targets; empty if nothing was.
        target_deviation: What each was divided by afterwards.
        words: The size of the vocabulary, of inputs that are tokens; the number of classes if none.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    num_classes: int = 0
    class_names: tuple[str, ...] = ()
    class_groups: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_deviation: tuple[float, ...] = ()
    words: int | None = None

    def __post_init__(self) -> None:
        for role, split in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            labels = split.y
            # Whoever makes targets that stay on disk has looked at all of them on the way.
            in_memory = isinstance(labels, Tensor)
            if in_memory and labels.numel() and not labels.is_floating_point() and self.num_classes > 0:
                for found in (int(labels.min()), int(labels.max())):
                    if not 0 <= found < self.num_classes:
                        raise DataError(
                            f"the labels of {self.name} must lie between 0 and {self.num_classes - 1}, but one of "
                            f"{role} is {found}."
                        )

    _hashed: ClassVar[tuple[str, str, str]] = ("data", "classes", "<f4")

    @property
    def form(self) -> InputForm:
        """What one input is."""
        x = self.train.x
        words = (self.words or self.num_classes) if x.dtype == torch.int64 else None
        return InputForm(tuple(int(size) for size in x.shape[1:]), words)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.form.shape

    @property
    def is_numeric(self) -> bool:
        """Whether targets are numbers instead of classes."""
        return self.train.y.is_floating_point()

    @property
    def num_outputs(self) -> int:
        """What a network gives for each target: a logit for each class, or the numbers."""
        return self.train.y[:1].numel() if self.is_numeric else self.num_classes

    @property
    def rows(self) -> str:
        """What is counted where a share of them is right: images, the tokens of texts, or rows."""
        if self.train.y.ndim == 2 and not self.is_numeric:
            return "tokens"
        return {"image": "images", "text": "texts"}.get(self.form.kind, "rows")

    @property
    def in_channels(self) -> int:
        """The number of channels of an image; of a vector, its features."""
        return self.form.pixels[0]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of an image; a vector is a single pixel."""
        return self.form.pixels[1:]

    def fingerprint(self) -> str:
        """A sha256 of the content of all splits, the same on every platform; names and notes do not count.

        Two data sets with one fingerprint give the same training, so that it can key a cache of results.
        """
        kind, classes, dtype = self._hashed
        if self.form.words is not None:
            dtype = "<i8"
        counted, targets = (self.num_classes, "<i8")
        if self.is_numeric:
            classes, counted, targets = "numbers", self.num_outputs, "<f4"
        digest = hashlib.sha256(f"ramet {kind} 1, {counted} {classes}".encode())
        for role, split in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            digest.update(f"\n{role} {tuple(split.x.shape)}\n".encode())
            for values, kind in ((split.x, dtype), (split.y, targets)):
                seen = values.cpu() if isinstance(values, Tensor) else values.sample(64)  # not gigabytes of files
                digest.update(np.ascontiguousarray(seen.numpy(), dtype=kind).data)
        return digest.hexdigest()

    def facts(self) -> dict[str, str]:
        """What the card of a network says of the data that it was trained on."""
        notes = {"notes": "; ".join(self.notes)} if self.notes else {}
        return {"data": str(self), **notes, "fingerprint": self.fingerprint()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        form = self.form
        targets = f"{self.num_outputs} numbers to tell" if self.is_numeric else f"{self.num_classes} classes"
        if form.kind == "image":
            inputs, rows = f"{self.in_channels} x {self.image_size[0]} x {self.image_size[1]}", "images"
        else:
            inputs, rows = str(form), "rows"
        return (
            f"{self.name}: {targets.replace('1 numbers', '1 number')}, {inputs}, "
            f"{len(self.train)} / {len(self.validation)} / {len(self.test)} {rows} to train, validate and test"
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
