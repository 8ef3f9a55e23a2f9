"""The front door: any source of images, vectors or text becomes one data set with three splits."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, SupportsIndex, cast

import numpy as np
import torch
from torch.utils.data import DataLoader

from ramet.data.arrays import are_vectors, check_pixels, to_channels_first
from ramet.data.dataset import DataSet, Split
from ramet.data.iterables import data_set_of
from ramet.data.labels import encode
from ramet.data.memory import require_room_beside
from ramet.data.numbers import Numbers, are_numbers, number_targets, standardised, target_statistics
from ramet.data.preparation import Pixels, channel_statistics, standardise
from ramet.data.raw import Layout, RawData, Targets
from ramet.data.reading import made_by, read_source, vectors_left_there
from ramet.data.splits import HOME, Indices, hold_out, subset
from ramet.data.spool import folder_of
from ramet.data.stored import StoredInputs
from ramet.data.text import is_text, read_text
from ramet.data.token_arrays import are_tokens, token_set
from ramet.errors import DataError

STATISTICS_ROWS = 2000
"""Of so many images the means of channels are taken where reading all would take long."""


def load(
    source: Any = "digits",
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    validation_fraction: float = 0.2,
    test_fraction: float = 0.2,
    pool: bool = False,
    image_size: int | tuple[int, int] | None = None,
    train_size: int | None = None,
    eval_size: int | None = None,
    layout: Layout | None = None,
    inputs: Literal["tokens"] | None = None,
    targets: Targets | None = None,
    in_memory: bool | None = None,
    readers: int = 0,
    spool: str | Path | None = None,
    name: str | None = None,
    trusted: bool = True,
) -> DataSet:
    """Read a source, split it by the seed, and standardise it by its training split.

    A source with a test set of its own keeps it, in its own order; otherwise one is cut off first. Validation images
    are then cut from the training images. Both cuts are stratified, and the test cut depends on neither the
    validation fraction nor any size, so that test images stay test images when those change.

    Args:
        source: The name of a data set; the path of an ``.npz`` file, of a folder of class folders or of one with the
            arrays ``x.npy`` and ``y.npy`` (or ``x_train.npy`` to ``y_test.npy``), which are mapped; a table,
            ``FILE.csv:target=COLUMN`` (see ``ramet.data.table``); a text, ``text:FILE:length=64`` (see
            ``ramet.data.text``); a pair of ``(images, labels)``, whose rows may also be vectors and numbers or, where
            both are whole numbers of one shape, tokens (see ``inputs``); a mapping of the arrays that an ``.npz``
            holds; a torch ``Dataset`` or ``DataLoader``, or a pair of them to train and to test (what can be read by
            index is; an iterable one, or a loader with a ``collate_fn`` of its own, is read once, into memory or to the
            folder ``spool``; batches are always our own, drawn by the seed); ``FILE.py:function`` of one's own, or the
            name of an installed package's data set, which gives any of these, or a ``DataSet``. A string that is a
            known name is never a path.
        data_dir: Where named sets lie; by default ``RAMET_DATA``, or a folder in the user's cache.
        seed: What the splits and the subsets are drawn from.
        validation_fraction: The part of each class of the training images that validates.
        test_fraction: The part of each class that tests, for a source without a test set.
        pool: Whether a source's own test set is first joined to its training set, so that all three splits are drawn by
            the seed. For studies that need many validation images of a set that has few to train on.
        image_size: Height and width to average-pool the images to, or one number for both; None leaves them. Image
            files of several sizes are scaled and cut to it instead.
        train_size: How many training images to keep, in the proportions of the classes; None keeps all.
        eval_size: The same for the validation and for the test images, each.
        layout: The order of the axes of the user's own arrays, where their shape leaves it open.
        inputs: ``tokens`` says that rows of whole numbers, ``[n, length]``, are tokens, whatever their targets are: a
            class for each row, ``[n]``, or for each of k places, ``[n, k]``. Without it they are tokens where each has
            a target, and vectors elsewhere.
        targets: ``classes`` or ``numbers``; by default targets are numbers if one of them has a fraction. Numbers are
            standardised, too (``DataSet.target_mean``).
        in_memory: Whether all images are read at once. By default those of a folder, of a torch data set and of mapped
            arrays, and mapped vectors and tokens, stay where they are if they would take more than half of the
            machine's memory, and are then read batch by batch; the means of channels are those of 2,000 of them.
            Batches have the same bits.
        readers: Processes that read such batches ahead.
        spool: A folder of its own for what comes one after the other, an iterable data set or loader: it is written
            there in one pass, and read from there as mapped arrays are. What the folder holds is taken as it is when it
            was written from a source of the same class and length, so that the source is not read again. Of a text, see
            ``load_text``.
        name: What to call the data set; by default the source's own name.
        trusted: Whether code that the source names may run; False for a source that comes from data.

    Raises:
        DataError: If an argument, or what the source holds, breaks a rule; the message is one line.
        MissingExtraError: If a folder of images is read without Pillow.

    >>> digits = load("digits", train_size=500)
    >>> digits.train.x.shape, digits.num_classes
    (torch.Size([500, 1, 8, 8]), 10)
    """
    for option, fraction in (("validation_fraction", validation_fraction), ("test_fraction", test_fraction)):
        if not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
            raise DataError(f"{option} must lie between 0 and 1, without either, but got {fraction!r}.")
    sizes = {"train_size": train_size, "eval_size": eval_size}
    counts = {option: None if size is None else _count(option, size) for option, size in sizes.items()}
    wanted = None if image_size is None else _height_and_width(image_size)
    number: object = seed
    if not isinstance(number, Integral):
        raise DataError(f"seed must be a whole number, but got {seed!r:.60}.")
    if readers != 0:
        _count("readers", readers)

    if is_text(source):
        changed: dict[str, Any] = {"image_size": image_size, "layout": layout, "inputs": inputs, "targets": targets}
        changed["pool"] = pool or None
        if given := [option for option, value in changed.items() if value is not None]:
            raise DataError(f"a text has neither images nor labels, but got {', '.join(given)}.")
        kept: dict[str, Any] = {"name": name, "in_memory": in_memory, "spool": spool, **counts}
        return read_text(source, data_dir=data_dir, **kept)
    source = made_by(source, trusted)
    if isinstance(source, DataLoader) and (data := data_set_of(source)) is not None:
        source, readers = data, readers or source.num_workers
    if isinstance(source, DataSet):
        changed = {**sizes, "image_size": image_size, "layout": layout, "inputs": inputs, "targets": targets}
        changed["spool"] = spool
        if given := [option for option, value in changed.items() if value is not None]:
            raise DataError(f"a DataSet is taken as it is, but got {', '.join(given)}.")
        return source if name is None else replace(source, name=name)
    try:
        folder = None if spool is None else folder_of(spool)
        raw = read_source(source, data_dir=data_dir, layout=layout, in_memory=in_memory, size=wanted, spool=folder)
    except OSError as error:  # what no reader foresaw, such as a folder without permission or a name too long
        raise DataError(f"a data set must be readable, but {source!s:.80} is not: {error.strerror}.") from error
    cutting = partial(_cut, counts=counts, seed=seed, fractions=(validation_fraction, test_fraction))
    if are_tokens(raw, inputs):
        if image_size is not None or targets is not None or pool:
            raise DataError("tokens are neither images nor numbers, but got image_size, targets or pool.")
        return token_set(name or raw.name, raw, cutting, in_memory)
    if vectors := are_vectors(raw):
        raw = vectors_left_there(raw, in_memory)
    if vectors and image_size is not None:
        raise DataError(f"image_size is for images, but {raw.name} has rows of {raw.train.images.shape[1]} numbers.")
    pixels = _pixels(raw)
    values: list[Numbers] | None = None
    class_names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = (raw.name,)
    if are_numbers(raw, targets):
        values = number_targets(raw)
        # Rows of numbers have no classes to keep apart: all are of one.
        labels = [np.zeros(len(part), dtype=np.int64) for part in values]
    else:
        labels, class_names = encode(raw)
        kinds = class_names
    stored = not isinstance(pixels[0], np.ndarray)
    if pool and len(pixels) == 2:
        if stored:
            raise DataError("pool is for data in memory, but these are read as they are asked for; say in_memory=True.")
        pixels, labels = [np.concatenate(pixels)], [np.concatenate(labels)]
        values = None if values is None else [np.concatenate(values)]
    size = _pooled_size(pixels[0], wanted)

    rows = cutting(labels, kinds)
    if not stored:
        num_values = sum(map(len, rows.values())) * math.prod((pixels[0].shape[1], *size))
        require_room_beside(4 * num_values, sum(part.nbytes for part in pixels), raw.name)
    seen = _spread(rows["train"], STATISTICS_ROWS) if stored else rows["train"]
    with np.errstate(invalid="ignore"):  # of pixels that are not finite, which are refused next
        mean, deviation = channel_statistics(pixels[0], seen, size)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):  # pixels in memory were looked at one by one
        raise DataError(f"the pixels of {raw.train.place} must be finite, and at most 1e30, but some are not.")
    told: list[Any] = labels
    target_mean = target_deviation = np.empty(0)
    if values is not None:
        target_mean, target_deviation = target_statistics(values[0][rows["train"]])
        told = [standardised(part, target_mean, target_deviation) for part in values]
    splits = {}
    for role, chosen in rows.items():
        place: tuple[Any, ...] = pixels[HOME[role]], chosen, size, mean, deviation
        x = StoredInputs(*place, workers=readers, seed=seed) if stored else standardise(*place)
        x = cast("torch.Tensor", x).flatten(1) if vectors and not stored else x
        splits[role] = Split(cast("torch.Tensor", x), torch.from_numpy(told[HOME[role]][chosen]))
    return DataSet(
        name or raw.name,
        splits["train"],
        splits["validation"],
        splits["test"],
        num_classes=len(class_names),
        class_names=class_names,
        class_groups=raw.class_groups,
        mean=tuple(mean.tolist()),
        deviation=tuple(deviation.tolist()),
        notes=raw.notes,
        target_mean=tuple(target_mean.tolist()),
        target_deviation=tuple(target_deviation.tolist()),
    )


def _spread(rows: Indices, count: int) -> Indices:
    """So many of the rows, evenly spread; all if there are fewer."""
    return rows if len(rows) <= count else rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def _pixels(raw: RawData) -> list[Pixels]:
    """The images of the source, ``[n, channels, height, width]``: those to split, and its own test set.

    The features of vectors are the channels of a single pixel.
    """
    if are_vectors(raw) and isinstance(raw.train.images, np.ndarray):
        return _vectors(raw)
    if not isinstance(raw.train.images, np.ndarray):  # they are checked when they are read
        pixels = [part.images for part in (raw.train, raw.test) if part is not None]
        if len({part.shape[1:] for part in pixels}) > 1:
            raise DataError(f"training and test images must have one shape, but have {[p.shape[1:] for p in pixels]}.")
        _check_bytes(pixels)
        return pixels
    pixels = [to_channels_first(raw.train.images, raw.layout, raw.train.place)]
    check_pixels(pixels[0], raw.train.place)
    if raw.test is None:
        return pixels
    # The training images decide the order of the axes: a shape may be clear in one and open in the other.
    order = raw.layout
    if order is None and raw.train.images.ndim == raw.test.images.ndim == 4:
        order = "NCHW" if pixels[0].shape == raw.train.images.shape else "NHWC"
    pixels.append(to_channels_first(raw.test.images, order, raw.test.place))
    check_pixels(pixels[1], raw.test.place)
    if pixels[0].shape[1:] != pixels[1].shape[1:]:
        raise DataError(
            "training and test images must have one shape [channels, height, width], "
            f"but have {pixels[0].shape[1:]} and {pixels[1].shape[1:]}."
        )
    _check_bytes(pixels)
    return pixels


def _check_bytes(pixels: list[Pixels]) -> None:
    """Bytes are divided by 255 and other numbers are not, so that both together have two ranges."""
    if len({part.dtype == np.uint8 for part in pixels}) > 1:
        raise DataError(
            f"training and test images must both be bytes or both not, but are {pixels[0].dtype} and {pixels[1].dtype}."
        )


def _vectors(raw: RawData) -> list[Pixels]:
    parts = [raw.train] if raw.test is None else [raw.train, raw.test]
    for part in parts:
        if part.images.ndim != 2 or part.images.shape[1] != raw.train.images.shape[1]:
            raise DataError(
                f"training and test vectors must have as many features, but {raw.train.place} has the shape "
                f"{raw.train.images.shape} and {part.place} {part.images.shape}."
            )
        check_pixels(part.images, part.place, "features", "vector")
    return [np.asarray(part.images)[:, :, None, None] for part in parts]


def _cut(
    labels: list[Indices],
    kinds: tuple[str, ...],
    *,
    counts: dict[str, int | None],
    seed: int,
    fractions: tuple[float, float],
) -> dict[str, Indices]:
    """The rows of each split, as many as are wanted, counted in the array that holds them."""
    if len(kinds) == 1 and len(labels[0]) < 4 - len(labels):  # classes are at least two, and say it for each
        raise DataError(f"there must be {4 - len(labels)} rows to split, but {kinds[0]} has {len(labels[0])}.")
    rows = _split(labels, kinds, seed, *fractions)
    for role, option in (("train", "train_size"), ("validation", "eval_size"), ("test", "eval_size")):
        if (count := counts[option]) is not None:
            rows[role] = _reduce(rows[role], labels[HOME[role]], count, option, role, seed, len(kinds))
    return rows


def _split(
    labels: list[Indices], class_names: tuple[str, ...], seed: int, validation_fraction: float, test_fraction: float
) -> dict[str, Indices]:
    """The rows of each split, counted in the array that holds them."""
    if len(labels) == 2:
        rest, test = np.arange(len(labels[0])), np.arange(len(labels[1]))
    else:
        rest, test = hold_out(labels[0], test_fraction, seed=seed, role="test", class_names=class_names, min_kept=2)
    kept, cut = hold_out(labels[0][rest], validation_fraction, seed=seed, role="validation", class_names=class_names)
    return {"train": rest[kept], "validation": rest[cut], "test": test}


def _reduce(rows: Indices, labels: Indices, count: int, option: str, role: str, seed: int, num_classes: int) -> Indices:
    """A stratified choice of ``count`` of the rows."""
    if count > len(rows):
        raise DataError(f"{option} must be at most the {len(rows)} images of the {role} split, but got {count}.")
    if role == "train" and count < num_classes:
        raise DataError(f"{option} must be at least the {num_classes} classes, but got {count}.")
    if count == len(rows):
        return rows
    every_class = role == "train"
    return rows[subset(labels[rows], count, seed=seed, role=role, num_classes=num_classes, every_class=every_class)]


def _pooled_size(pixels: Pixels, wanted: tuple[int, int] | None) -> tuple[int, int]:
    height, width = pixels.shape[2:]
    if wanted is None:
        return height, width
    if wanted[0] > height or wanted[1] > width:
        raise DataError(
            f"image_size must be at most the {height} x {width} of the images, but got {wanted[0]} x {wanted[1]}."
        )
    return wanted


def _height_and_width(image_size: Any) -> tuple[int, int]:
    sides = tuple(image_size) if isinstance(image_size, (tuple, list)) else (image_size, image_size)
    if len(sides) != 2:
        raise DataError(f"image_size must be one number or a height and a width, but got {image_size!r}.")
    return _count("image_size", sides[0]), _count("image_size", sides[1])


def _count(option: str, value: SupportsIndex) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise DataError(f"{option} must be a whole number of at least 1, but got {value!r}.")
    return number
