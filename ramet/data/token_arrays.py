"""Tokens that a source has by number: arrays of them, and targets for each token, each place or each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

from ramet.data.dataset import DataSet, Split
from ramet.data.labels import encode
from ramet.data.memory import require_room
from ramet.data.raw import Labelled, RawData
from ramet.data.splits import HOME, Indices
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


def check_tokens(part: Labelled, first: Labelled) -> None:
    """Refuse tokens, ``[n, length]``, and targets, ``[n]`` or ``[n, k]``, that are no places in a vocabulary.

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
    for values in (x, y) if y.ndim == 2 else (x,):
        if values.dtype.kind not in "iu" or int(values.min()) < 0:
            raise DataError(f"the tokens of {part.place} must be numbers from 0, but one is {values.min()}.")


def token_set(
    name: str, raw: RawData, cutting: Callable[[list[Indices], tuple[str, ...]], dict[str, Indices]]
) -> DataSet:
    """Rows of tokens as the arrays have them, and their targets: a class for each row, or numbers of tokens."""
    parts = [raw.train] if raw.test is None else [raw.train, raw.test]
    for part in parts:
        require_room(8 * (part.images.size + part.labels.size), part.place)  # whole numbers of 64 bits
        check_tokens(part, raw.train)
    texts = [part.images.astype(np.int64) for part in parts]
    class_names: tuple[str, ...] = ()
    if raw.train.labels.ndim == 1:
        told, class_names = encode(raw)
        rows = cutting(told, class_names)
    else:
        told = [part.labels.astype(np.int64) for part in parts]
        rows = cutting([np.zeros(len(x), dtype=np.int64) for x in texts], (raw.name,))
    splits = {role: Split(*(torch.from_numpy(each[HOME[role]][rows[role]]) for each in (texts, told))) for role in rows}
    words, num_classes = (max(int(part.max()) for part in each) + 1 for each in (texts, told))
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
