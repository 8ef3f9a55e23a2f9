"""How the entries of a dimension move when it gets wider: a linear map, as an index and a factor for each entry.

Entry j of the wider dimension reads entry ``index[j]`` of the old one, times ``factor[j]``; an index of -1 reads
nothing. A dimension is made of axes (``axes.py``), and its map of theirs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ramet.tracing.axes import Axis, Layout, Term


class Expansion:
    """Which old entry each entry of a wider dimension reads, or -1 for none, and times what; shapes [wide].

    >>> grown = spread(torch.tensor([3.0, 4.0]), {0: Expansion(torch.tensor([0, 1, 1, -1]))})
    >>> grown.tolist()
    [3.0, 4.0, 4.0, 0.0]
    """

    def __init__(self, index: Tensor, factor: Tensor | None = None) -> None:
        self.index, self.factor = index, factor

    @functools.cached_property
    def reading(self) -> tuple[Tensor, Tensor | None]:
        """An index without gaps and what its entries are multiplied by; nothing if that is 1 everywhere."""
        missing = self.index < 0
        factor = torch.ones(len(missing), dtype=torch.float64) if self.factor is None else self.factor
        scale = factor.masked_fill(missing, 0.0)
        return self.index.clamp(min=0), None if bool((scale == 1).all()) else scale

    def or_else(self, other: Expansion, offset: int) -> Expansion:
        """This one where it reads something, the other where it does not; what this one reads lies ``offset`` behind.

        >>> first, second = Expansion(torch.tensor([-1, -1, 0])), Expansion(torch.tensor([0, 1, -1]))
        >>> first.or_else(second, 2).index.tolist()
        [0, 1, 2]
        """
        missing = self.index < 0
        index = torch.where(missing, other.index, self.index + offset)
        if self.factor is None and other.factor is None:
            return Expansion(index)
        one = torch.ones((), dtype=torch.float64)
        own, others = (one if factor is None else factor for factor in (self.factor, other.factor))
        return Expansion(index, torch.where(missing, others, own))


def wider(layout: Layout, sizes: Mapping[Axis, int]) -> int:
    """The size of a dimension once axes have new sizes."""
    return sum(math.prod(sizes.get(axis, axis.size) for axis in term) for term in layout)


def expand_layout(
    layout: Layout, expansions: Mapping[Axis, Expansion], only: tuple[Axis, int] | None = None
) -> Expansion:
    """The expansion of a dimension from those of its axes that change; the very one of an axis if it is that axis.

    With ``only``, the old dimension is taken to hold the entries of this axis alone, with so many units; the axis's
    expansion refers to those. What does not hold the axis reads nothing.
    """
    parts: list[Expansion] = []
    offset = 0
    for term in layout:
        part = _expand_term(term, expansions, only)
        if only is not None and only[0] not in term:
            part = Expansion(torch.full_like(part.index, -1), part.factor)
        else:
            if offset:
                part = Expansion(torch.where(part.index < 0, part.index, part.index + offset), part.factor)
            offset += math.prod(only[1] if only is not None and axis is only[0] else axis.size for axis in term)
        parts.append(part)
    return parts[0] if len(parts) == 1 else _concatenated(parts)


def _concatenated(parts: list[Expansion]) -> Expansion:
    index = torch.cat([part.index for part in parts])
    if all(part.factor is None for part in parts):
        return Expansion(index)
    ones = [torch.ones(len(part.index), dtype=torch.float64) if part.factor is None else part.factor for part in parts]
    return Expansion(index, torch.cat(ones))


def _expand_term(term: Term, expansions: Mapping[Axis, Expansion], only: tuple[Axis, int] | None) -> Expansion:
    """The expansion of axes that are nested in each other, the outermost first."""
    if len(term) == 1:
        return expansions.get(term[0]) or Expansion(torch.arange(term[0].size))
    index = torch.zeros(1, dtype=torch.long)
    factor: Tensor | None = None
    for axis in term:
        inner = expansions.get(axis) or Expansion(torch.arange(axis.size))
        size = only[1] if only is not None and axis is only[0] else axis.size
        missing = (index[:, None] < 0) | (inner.index[None, :] < 0)
        if factor is not None or inner.factor is not None:
            outer = torch.ones(len(index), dtype=torch.float64) if factor is None else factor
            scale = torch.ones(len(inner.index), dtype=torch.float64) if inner.factor is None else inner.factor
            factor = (outer[:, None] * scale[None, :]).flatten()
        index = (index[:, None] * size + inner.index[None, :]).masked_fill(missing, -1).flatten()
    return Expansion(index, factor)


def spread(tensor: Tensor, expansions: Mapping[int, Expansion]) -> Tensor:
    """The tensor with dimensions expanded; entries with index -1 are zero."""
    return Spread(expansions)(tensor)


class Spread:
    """The expansion of some dimensions, worked out once for the many tensors of one shape that go through it."""

    def __init__(self, expansions: Mapping[int, Expansion]) -> None:
        self.expansions = expansions
        self._ready: dict[tuple[torch.device, torch.dtype, torch.Size], list[tuple[int, Tensor, Tensor | None]]] = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor expanded; differentiable."""
        for dim, index, scale in self._for(tensor):
            tensor = tensor.index_select(dim, index)
            if scale is not None:
                tensor = tensor * scale
        return tensor

    def _for(self, tensor: Tensor) -> list[tuple[int, Tensor, Tensor | None]]:
        """The steps for tensors like this one, on its device; what would change nothing is left out."""
        key = (tensor.device, tensor.dtype, tensor.shape)
        if key not in self._ready:
            steps = []
            for dim, expansion in self.expansions.items():
                index, scale = expansion.reading
                size = tensor.shape[dim]
                if scale is None and len(index) == size and torch.equal(index, torch.arange(size)):
                    continue
                shape = [1] * tensor.dim()
                shape[dim] = -1
                placed = None if scale is None else scale.to(tensor).view(shape)
                steps.append((dim, index.to(tensor.device), placed))
            self._ready[key] = steps
        return self._ready[key]
