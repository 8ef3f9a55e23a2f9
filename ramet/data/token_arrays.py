"""Tokens that a source has by number: arrays of them, and targets for each token, each place or each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

from ramet.data.dataset import DataSet, Split
from ramet.data.labels import encode
from ramet.data.memory import fits_in_memory, require_room
from ramet.data.raw import Array, Labelled, RawData
from ramet.data.splits import HOME, Indices
from ramet.data.stored_tokens import MappedTokens, StoredTokens, bounds_of
from ramet.errors import DataError


def are_tokens(raw: RawData, wanted: Literal["tokens"] | None = None) -> bool:
    """Whether a source holds tokens by number: where the user says so, or rows of whole numbers with a target each.

    Raises:
        DataError: the user says so, and they are none.
    """
    x, y = raw.train.images, raw.train.labels
    is_whole = isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.ndim == 2
    if wanted is None:
        return is_whole and y.dtype.kind in "iu" and x.shape == y.shape and x.shape[1] > 1
    if wanted != "tokens":
        raise DataError(f"inputs must be tokens, where they are said, but got {wanted!r}.")
    if not is_whole:
        held = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, np.ndarray) else "read as they are asked for"
        raise DataError(f"tokens must be whole numbers in memory, [n, length], but {raw.train.place} are {held}.")
    if y.ndim == 2 and y.dtype.kind not in "iu":
        raise DataError(f"the targets of tokens must be classes, [n] or [n, k], but got {y.dtype} of shape {y.shape}.")
    return True


def check_tokens(part: Labelled, first: Labelled) -> tuple[int, int]:
    """Refuse tokens, ``[n, length]``, and targets, ``[n]`` or ``[n, k]``, that are no places in a vocabulary.

    Gives the sizes of the vocabularies of tokens and targets; the latter is 0 where targets are classes of rows.

    Args:
        part: what is looked at.
        first: the source's training part, whose shapes all parts have.
    """
    x, y = part.images, part.labels
    if len(x) != len(y) or 0 in x.shape or 0 in y.shape:
        raise DataError(f"{part.place} must have targets for each row, but has the shapes {x.shape} and {y.shape}.")
    if (x.shape[1:], y.shape[1:]) != (first.images.shape[1:], first.labels.shape[1:]):
        raise DataError(
            f"training and test tokens must have one shape, but {first.place} has {first.images.shape[1:]} with "
            f"targets {first.labels.shape[1:]} and {part.place} {x.shape[1:]} with {y.shape[1:]}."
        )
    sizes = [0, 0]
    for place, values in enumerate((x, y) if y.ndim == 2 else (x,)):
        if values.dtype.kind not in "iu":
            raise DataError(f"the tokens of {part.place} must be whole numbers, but are {values.dtype}.")
        lowest, highest = bounds_of(values)
        if lowest < 0:
            raise DataError(f"the tokens of {part.place} must be numbers from 0, but one is {lowest}.")
        sizes[place] = highest + 1
    return sizes[0], sizes[1]


def token_set(
    name: str,
    raw: RawData,
    cutting: Callable[[list[Indices], tuple[str, ...]], dict[str, Indices]],
    in_memory: bool | None = None,
) -> DataSet:
    """Rows of tokens as the arrays have them, and their targets: a class for each row, or numbers of tokens.

    Args:
        name: what it is called.
        raw: the arrays.
        cutting: gives the rows of each split.
        in_memory: whether mapped arrays are read at once; by default those that fit are.

    Raises:
        DataError: they are no tokens, or do not fit into memory and are not mapped.
    """
    parts = [raw.train] if raw.test is None else [raw.train, raw.test]
    stays = _stays(parts, in_memory)
    for part in parts:
        kept = [values for values in (part.images, part.labels) if not (stays and _is_mapped(values))]
        require_room(8 * sum(values.size for values in kept), part.place)  # whole numbers of 64 bits
    sizes = [check_tokens(part, raw.train) for part in parts]
    words, num_classes = (max(column) for column in zip(*sizes, strict=True))
    texts = [_column(part.images, part.place, stays) for part in parts]
    class_names: tuple[str, ...] = ()
    told: list[Indices] | list[Indices | MappedTokens]
    if raw.train.labels.ndim == 1:
        told, class_names = encode(raw)
        rows = cutting(told, class_names)
    else:
        told = [_column(part.labels, part.place, stays) for part in parts]
        rows = cutting([np.zeros(len(x), dtype=np.int64) for x in texts], (raw.name,))
    splits = {
        role: Split(*(_taken(column[HOME[role]], rows[role]) for column in (texts, told)))  # type: ignore[arg-type]
        for role in rows
    }
    return DataSet(
        name,
        splits["train"],
        splits["validation"],
        splits["test"],
        num_classes=len(class_names) or num_classes,
        class_names=class_names,
        words=words,
        notes=raw.notes,
    )


def _is_mapped(values: Array) -> bool:
    """Whether an array can stay in its file: labels, one for each row, take no room worth the name."""
    return isinstance(values, np.memmap) and values.ndim == 2


def _stays(parts: list[Labelled], in_memory: bool | None) -> bool:
    if in_memory is False and not any(_is_mapped(part.images) for part in parts):
        raise DataError(
            f"tokens stay on disk where they are mapped arrays, but {parts[0].place} are none and got in_memory=False."
        )
    if in_memory is None:
        return not fits_in_memory([2, sum(part.images.size + part.labels.size for part in parts)])
    return not in_memory


def _column(values: Array, place: str, stays: bool) -> Indices | MappedTokens:
    return MappedTokens.of(values, place) if stays and _is_mapped(values) else values.astype(np.int64)  # type: ignore[arg-type]


def _taken(values: Indices | MappedTokens, rows: Indices) -> torch.Tensor | StoredTokens:
    return StoredTokens(values, rows) if isinstance(values, MappedTokens) else torch.from_numpy(values[rows])
