"""Rows that are looked up, and entries that are multiplied, added or put beside others, each with inputs of its own.

The inputs of what is added are 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ramet.guards.meetings import Meeting, Readers, broadcast, ones
from ramet.guards.precision import precise

READERS = Readers()


@READERS.of(functional.embedding, functional.embedding_bag, torch.embedding)
def _embedding(input: Tensor, weight: Tensor, *_: Any, **__: Any) -> Iterable[Meeting]:
    if input.is_floating_point():
        input, weight = weight, input  # the order of torch.embedding
    return [Meeting(weight, "rows", lambda mean: _counts(input, weight))]


@READERS.of(Tensor.__getitem__)
def _rows(input: Tensor, index: Any) -> Iterable[Meeting]:
    if isinstance(index, Tensor) and index.dtype == torch.int64:
        return [Meeting(input, "rows", lambda mean: _counts(index % len(input), input))]
    return []


@READERS.of(torch.index_select, Tensor.index_select)
def _selected(input: Tensor, dim: int, index: Tensor, **_: Any) -> Iterable[Meeting]:
    return [Meeting(input, "rows", lambda mean: _counts(index, input))] if dim == 0 else []


def _counts(index: Tensor, weight: Tensor) -> Tensor:
    # Departs from the mean: the mean of one-hot inputs is dense and would close no single row; counts are as cheap.
    counts = torch.bincount(index.reshape(-1), minlength=len(weight))
    return counts.to(torch.promote_types(weight.dtype, torch.float32))


@READERS.of(torch.mul, Tensor.mul, Tensor.mul_, torch.multiply, Tensor.multiply, Tensor.__rmul__)
def _mul(input: Any, other: Any, **_: Any) -> Iterable[Meeting]:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return []
    pairs = ((input, other), (other, input))
    return [Meeting(w, "entries", lambda mean, w=w, x=x: gathered(x, w, mean)) for w, x in pairs]  # type: ignore[misc]


def gathered(x: Tensor, weight: Tensor, mean: bool) -> Tensor:
    """The squares of what meets each entry, summed up, or the mean of what meets it."""
    x = precise(x).expand(broadcast(x.shape, weight.shape))
    if mean:
        return x.sum_to_size(weight.shape) / (x.numel() / max(weight.numel(), 1))
    return x.square().sum_to_size(weight.shape)


@READERS.of(torch.add, Tensor.add, Tensor.add_, torch.sub, Tensor.sub, Tensor.sub_, Tensor.__radd__)
def _add(input: Any, other: Any, **_: Any) -> Iterable[Meeting]:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return []

    def inputs(w: Tensor, mean: bool) -> Tensor:
        return ones(w, math.prod(broadcast(input.shape, other.shape)), mean)

    return [Meeting(w, "entries", partial(inputs, w)) for w in (input, other)]


@READERS.of(torch.cat, torch.concat, torch.stack)
def _cat(tensors: Sequence[Tensor], *_: Any, **__: Any) -> Iterable[Meeting]:
    return [Meeting(w, "entries", lambda mean, w=w: ones(w, w.numel(), mean)) for w in tensors]  # type: ignore[misc]


@READERS.of(Tensor.repeat)
def _repeat(input: Tensor, *sizes: Any, **_: Any) -> Iterable[Meeting]:
    """A copy has each entry several times."""
    flat = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return [Meeting(input, "entries", lambda mean: ones(input, input.numel() * math.prod(flat), mean))]


@READERS.of(functional.prelu, torch.prelu)
def _prelu(input: Tensor, weight: Tensor) -> Iterable[Meeting]:
    return [Meeting(weight, "entries", lambda mean: by_channel(precise(input).clamp(max=0), weight, mean))]


def by_channel(x: Tensor, weight: Tensor, mean: bool) -> Tensor:
    """``_gathered`` for a weight that has a value for each channel, the second axis of x, or one for all."""
    if weight.numel() == 1 or x.dim() < 2:
        return gathered(x.reshape(-1, 1), weight.reshape(1), mean).reshape(weight.shape)
    return gathered(x.transpose(1, -1), weight, mean)
