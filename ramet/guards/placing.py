"""Where in a parameter a product's matrix lies: the whole of it, its transpose, or some of its rows and columns.

Attention multiplies queries, keys and values with thirds of one parameter, supernets use the first channels of a
weight, and many a layer stores [inputs, outputs]. All of these are views. What a view's entries are in the parameter is
read from its strides, and from that how the product's inputs go into those of the whole parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ramet.guards.meetings import Arrangement

MOST_BLOCKS = 8
"""Rows that are used in parts have inputs for each part, up to so many parts; else every part has those of all."""


@dataclass(frozen=True)
class Place:
    """How the inputs of one product lie among the inputs of a whole parameter.

    Attributes:
        transposed: whether the parameter is stored as [inputs, outputs].
        groups: into how many blocks of rows the parameter falls.
        width: the inputs of each.
        first: the first of the blocks that this product uses, ``used`` of them.
        repeats: how many blocks have the inputs of one of the product's own groups.
        inputs: which inputs they are; None for all of them.
    """

    transposed: bool
    groups: int
    width: int
    used: int
    first: int = 0
    repeats: int = 1
    inputs: tuple[int, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the parameter is left out."""
        return self.inputs is None and self.used == self.groups and self.repeats == 1


def entries_of(view: Tensor, param: Tensor) -> Tensor:
    """Which entries of a parameter, counted row by row, a view of it consists of, in the view's shape."""
    counted = torch.arange(param.numel(), device=param.device).reshape(param.shape)
    if view is param:
        return counted
    stored = torch.empty_strided(tuple(param.shape), param.stride(), dtype=torch.int64, device=param.device)
    stored.copy_(counted)
    offset = view.storage_offset() - param.storage_offset()
    return stored.as_strided(tuple(view.shape), view.stride(), offset)


def place_of(view: Tensor, param: Tensor, arrangement: Arrangement) -> Place | None:
    """Where the matrix of a product lies in a parameter; None where it is no block of rows and columns."""
    entries = arrangement(entries_of(view, param)).cpu()  # [groups, outputs, inputs]
    if entries.numel() == 0:
        return None
    shape = tuple(param.shape)
    if len(shape) == 1 and entries.shape[:2] == (1, 1) and entries.numel() == param.numel():
        return Place(False, 1, param.numel(), 1)  # a product with a vector
    for axis in range(1, max(len(shape), 2)):
        inner = math.prod(shape[axis:])
        rows, columns = entries // inner, entries % inner
        if (columns == columns[:1, :1]).all() and (rows == rows[..., :1]).all():
            return _by_rows(rows[..., 0], columns[0, 0], param.numel() // inner, inner)
        if (columns == columns[:1, :, :1]).all() and (rows == rows[:, :1]).all():
            return _by_columns(rows[:, 0], columns[0, :, 0], param.numel() // inner, inner)
    return None


def _by_rows(rows: Tensor, columns: Tensor, num_rows: int, width: int) -> Place | None:
    """Outputs are rows, [groups, outputs], and inputs columns, [inputs]."""
    groups, each = rows.shape
    inputs = None if torch.equal(columns, torch.arange(width)) else tuple(columns.tolist())
    first = int(rows[0, 0])
    in_order = torch.equal(rows.reshape(-1), torch.arange(first, first + rows.numel()))
    if in_order and rows.numel() == num_rows:
        return Place(False, groups, width, groups, inputs=inputs)
    if groups > 1:
        fits = in_order and first % each == 0 and num_rows % each == 0
        return Place(False, num_rows // each, width, groups, first // each, inputs=inputs) if fits else None
    block = math.gcd(first, each, num_rows)
    if in_order and num_rows // block <= MOST_BLOCKS:
        used = each // block
        return Place(False, num_rows // block, width, used, first // block, used, inputs)
    return Place(False, 1, width, 1, inputs=inputs)  # all rows have these inputs: more is closed than needs be


def _by_columns(rows: Tensor, columns: Tensor, num_rows: int, num_columns: int) -> Place | None:
    """Inputs are rows, [groups, inputs]; the outputs, columns, do not count, since all of them have these inputs."""
    groups, each = rows.shape
    if torch.equal(rows.reshape(-1), torch.arange(num_rows)):
        return Place(True, groups, each, groups)
    return Place(True, 1, num_rows, 1, inputs=tuple(rows[0].tolist())) if groups == 1 else None


def spread(columns: Tensor, place: Place, *, has_bias: bool) -> Tensor:
    """The inputs of a product, with a bias's last, as inputs of the whole parameter, [groups, width, n]."""
    if place.inputs is not None:
        whole = columns.new_zeros(columns.shape[0], place.width + has_bias, columns.shape[2])
        whole[:, [*place.inputs, *([place.width] if has_bias else [])]] = columns
        columns = whole
    if place.used == place.groups and place.repeats == 1:
        return columns
    columns = columns.repeat_interleave(place.repeats, dim=0)
    blocks = columns.new_zeros(place.groups, *columns.shape[1:])
    blocks[place.first : place.first + place.used] = columns
    return blocks
