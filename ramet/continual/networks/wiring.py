"""Which units the tensors of a network hold: the neurons of a chain's layers, or what a module's trace finds coupled.

A *place* is a layer of a chain, or a group of channels that a trace found (``ramet.tracing``): they are made in one or
several tensors and read in others, and come and go together. Each dimension of a tensor is laid out in units of places
and in what is fixed (``ramet.tracing.axes``): the rows of a linear layer are its neurons, and its columns behind a
flattened image the pixels of each channel before it. So a network of other widths is the same tensors with other
units in them.

>>> from ramet.continual.networks.skeletons import mlp
>>> wiring = mlp(3, 2, in_channels=1, image_size=(1, 1)).wiring
>>> weight = torch.arange(6).reshape(2, 3)
>>> wiring.take("layer2.weights.weight", weight, (3, 2), [torch.tensor([0, 2]), torch.tensor([1])])
tensor([[3, 5]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ramet.tracing.axes import Axis, Layout
from ramet.tracing.expansions import Expansion, expand_layout, wider

Units = Sequence[Tensor]
"""For each place some of its units, by their numbers; or a boolean for each of them."""


@dataclass(frozen=True, eq=False)
class Wiring:
    """The places of a network's units and where its tensors hold them.

    Attributes:
        names: what the places are called.
        axes: for each place what stands for its units in the layouts; its size is the template's.
        layouts: of each tensor of a network that has dimensions, what these are made of.
        readers: the dimensions that sum over units, as (tensor, dimension); all others of a layout make units, or hold
            something for each.
        shared: the tensors of a master network, in order; all others are each task's own.
        head_weight: the matrix of the head, [classes, features].
    """

    names: tuple[str, ...]
    axes: tuple[Axis, ...]
    layouts: Mapping[str, tuple[Layout, ...]]
    readers: frozenset[tuple[str, int]]
    shared: tuple[str, ...]
    head_weight: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """The units of each place in the template's own network."""
        return tuple(axis.size for axis in self.axes)

    def dims(self, name: str, place: int | None = None) -> list[int]:
        """The dimensions of a tensor that hold units; of one place, or of any."""
        wanted = set(self.axes if place is None else (self.axes[place],))
        layouts = self.layouts.get(name, ())
        return [dim for dim, layout in enumerate(layouts) if any(wanted.intersection(term) for term in layout)]

    def shape(self, name: str, sizes: Sequence[int]) -> tuple[int, ...]:
        """The shape of a tensor in a network of some widths."""
        given = dict(zip(self.axes, sizes, strict=True))
        return tuple(wider(layout, given) for layout in self.layouts[name])

    def widths(self, shapes: Mapping[str, Sequence[int]]) -> list[int]:
        """The units of each place, by the shapes of a network's tensors."""
        found = []
        for place, axis in enumerate(self.axes):
            name, dim = next(
                (name, dim)
                for name in self.layouts
                for dim in self.dims(name, place)
                if len(self.layouts[name][dim]) == 1 and set(self.layouts[name][dim][0]) & set(self.axes) == {axis}
            )
            found.append(shapes[name][dim] * axis.size // wider(self.layouts[name][dim], {}))
        return found

    def entries(self, name: str, dim: int, sizes: Sequence[int], chosen: Units) -> Tensor:
        """The entries of a dimension that units of a network of some widths have; in their order, [entries]."""
        moved = {axis: Axis(size) for axis, size in zip(self.axes, sizes, strict=True)}
        layout = tuple(tuple(moved.get(axis, axis) for axis in term) for term in self.layouts[name][dim])
        picks = {moved[axis]: Expansion(units) for axis, units in zip(self.axes, chosen, strict=True)}
        return expand_layout(layout, picks).index

    def marked(self, name: str, dim: int, flags: Units) -> Tensor:
        """Which entries of a dimension have no unit but marked ones, [entries]; what is fixed has none at all."""
        sizes = [len(flag) for flag in flags]
        picks = [torch.where(flag, torch.arange(len(flag)), -1) for flag in flags]
        return self.entries(name, dim, sizes, picks) >= 0

    def mask(self, name: str, flags: Units, device: torch.device | str = "cpu") -> Tensor:
        """Which values of a tensor have no unit but marked ones, broadcast over dimensions that have no unit."""
        mask = torch.ones([1] * len(self.layouts[name]), dtype=torch.bool)
        for dim in self.dims(name):
            mask = mask & _along(self.marked(name, dim, flags), dim, mask.ndim)
        return mask.to(device)

    def reading(self, name: str, flags: Units, device: torch.device | str = "cpu") -> Tensor:
        """Which values of a tensor read a unit that is not marked, broadcast likewise."""
        found = torch.zeros([1] * len(self.layouts[name]), dtype=torch.bool)
        for dim in self.dims(name):
            if (name, dim) in self.readers:
                found = found | _along(~self.marked(name, dim, flags), dim, found.ndim)
        return found.to(device)

    def made(self, name: str, flags: Units, device: torch.device | str = "cpu") -> Tensor:
        """Which values of a tensor make, or go along with, no unit but marked ones, broadcast likewise."""
        mask = torch.ones([1] * len(self.layouts[name]), dtype=torch.bool)
        for dim in self.dims(name):
            if (name, dim) not in self.readers:
                mask = mask & _along(self.marked(name, dim, flags), dim, mask.ndim)
        return mask.to(device)

    def take(
        self, name: str, tensor: Tensor, sizes: Sequence[int], chosen: Units, *, made_only: bool = False
    ) -> Tensor:
        """A tensor of a network of some widths, with only some units in some order; what reads units may stay."""
        for dim in self.dims(name):
            if made_only and (name, dim) in self.readers:
                continue
            tensor = tensor.index_select(dim, self.entries(name, dim, sizes, chosen).to(tensor.device))
        return tensor

    def put(self, name: str, into: Tensor, sizes: Sequence[int], chosen: Units, values: Tensor) -> None:
        """Write what ``take`` would read."""
        held = self.dims(name)
        if not held:
            into.copy_(values)
            return
        indices = []
        for dim in range(into.ndim):
            index = self.entries(name, dim, sizes, chosen) if dim in held else torch.arange(into.shape[dim])
            indices.append(_along(index.to(into.device), dim, into.ndim))
        into[tuple(indices)] = values

    def units(self, name: str, dim: int, place: int, sizes: Sequence[int]) -> Tensor:
        """For each entry of a dimension the unit of a place that it belongs to, or -1; [entries]."""
        axis, given, parts = self.axes[place], dict(zip(self.axes, sizes, strict=True)), []
        for term in self.layouts[name][dim]:
            length = wider((term,), given)
            if axis in term:
                inner = wider((term[term.index(axis) + 1 :],), given)
                parts.append(torch.arange(length) // inner % sizes[place])
            else:
                parts.append(torch.full((length,), -1))
        return torch.cat(parts)

    def rows(self, name: str, dim: int, place: int, tensor: Tensor, sizes: Sequence[int]) -> Tensor:
        """The values of each unit of a place along a dimension, [units, entries of a unit, values of an entry]."""
        units = self.units(name, dim, place, sizes)
        order = units.sort(stable=True).indices[int((units < 0).sum()) :]
        rows = tensor.movedim(dim, 0).index_select(0, order.to(tensor.device))
        return rows.reshape(sizes[place], len(order) // sizes[place], -1)

    def sums(self, name: str, dim: int, place: int, values: Tensor, sizes: Sequence[int]) -> Tensor:
        """The sum of the values of each unit of a place along a dimension, [units]."""
        return self.rows(name, dim, place, values, sizes).sum(2).sum(1)

    def along(self, name: str, dim: int, place: int, factors: Tensor, sizes: Sequence[int]) -> Tensor:
        """A factor for each unit of a place, for the entries of a dimension, broadcast; 1 for those of no unit."""
        units = self.units(name, dim, place, sizes).to(factors.device)
        spread = torch.where(units < 0, torch.ones_like(factors[units]), factors[units])
        return _along(spread, dim, len(self.layouts[name]))

    def holders(self, place: int, *, reading: bool) -> list[tuple[str, int]]:
        """The tensors and dimensions that read the units of a place, or that make them or go along with them."""
        found = [(name, dim) for name in self.layouts for dim in self.dims(name, place)]
        return [each for each in found if (each in self.readers) == reading]


def _along(values: Tensor, dim: int, ndim: int) -> Tensor:
    shape = [1] * ndim
    shape[dim] = -1
    return values.reshape(shape)
