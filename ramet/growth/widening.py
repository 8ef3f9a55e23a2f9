r"""The arithmetic of widening: what every tensor becomes when units are split or added.

All of it is one linear map for each dimension: entry :math:`j` of the wider dimension reads entry ``index[j]`` of the
old one, times ``factor[j]``; an index of -1 reads nothing. A unit with :math:`c` copies keeps its function when the
weights that sum over it are divided by :math:`c`; a new unit is silent when those that sum over it are zero. With

.. math:: \theta_i \Rightarrow \theta_i + s_i,\; \theta_i - s_i, \qquad w_i \Rightarrow w_i / 2,\; w_i / 2

for the incoming and outgoing weights of a split by the step :math:`s_i = \varepsilon_i \delta_i`, and
:math:`(\delta, \varepsilon u)` for those of a new unit, the wider network equals the old one at
:math:`\varepsilon = 0` and differs by :math:`O(\varepsilon)` otherwise (section 2.2 of the Firefly paper). The
functions are differentiable, so that steps and new weights can be trained through them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.axes import Axis, Layout
from ramet.growth.coupling import Coupling, Group

Expansion = tuple[Tensor, Tensor]
"""For each entry of a wider dimension the old entry that it reads (or -1), and the factor: shapes [wide], [wide]."""


@dataclass
class Widening:
    """How one group grows: units that are split, and brand-new ones. The order afterwards: old, copies, new.

    Attributes:
        sources: the units that get a copy each, shape [copies]; a unit may appear several times.
        steps: for tensors that make the channels, what is added to the original and subtracted from the copy, so that
            the mean over all copies stays; shaped like the tensor with the copies in place of the group's units. A
            tensor that is missing gets none.
        num_new: the number of brand-new units.
        incoming: for tensors that make or follow the channels, the weights of the new units, shaped like the tensor
            with the new units in place of the group's. A tensor that is missing gets a neutral start.
        outgoing: for tensors that sum over the channels, likewise; a tensor that is missing gets zeros, which makes
            the growth exact.
    """

    sources: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    steps: dict[str, Tensor] = field(default_factory=dict)
    num_new: int = 0
    incoming: dict[str, Tensor] = field(default_factory=dict)
    outgoing: dict[str, Tensor] = field(default_factory=dict)

    @property
    def num_added(self) -> int:
        """How many units the group gains."""
        return len(self.sources) + self.num_new

    def check(self, group: Group) -> None:
        """Refuse sources outside the group."""
        if len(self.sources) and not (int(self.sources.min()) >= 0 and int(self.sources.max()) < group.size):
            raise ConfigError(
                f"units to split must be below the {group.size} of {group.name}, but got {self.sources.tolist()}."
            )


Widenings = Mapping[str, Widening]
"""Widenings by the names of their groups."""


def copies(group: Group, widening: Widening) -> Tensor:
    """How many copies of itself each unit of the wider group has, shape [old + copies + new]; 1 for new units."""
    sources = widening.sources.cpu()
    counts = 1 + torch.bincount(sources, minlength=group.size)
    return torch.cat([counts, counts[sources], torch.ones(widening.num_new, dtype=torch.long)])


def _identity(size: int) -> Expansion:
    return torch.arange(size), torch.ones(size, dtype=torch.float64)


def expand_layout(
    layout: Layout, expansions: Mapping[Axis, Expansion], only: tuple[Axis, int] | None = None
) -> Expansion:
    """The expansion of a dimension from the expansions of its axes.

    Args:
        layout: what the dimension is made of.
        expansions: of the axes that change; the others stay.
        only: if given, the old dimension is taken to hold the entries of this axis alone, as ``steps``, ``incoming``
            and ``outgoing`` do, with so many units; the axis's expansion refers to those.

    Returns:
        Index and factor for each entry of the wider dimension.
    """
    indices, factors = [], []
    offset = 0
    for term in layout:
        index, factor = _expand_term(term, expansions, only)
        if only is None or only[0] in term:
            indices.append(torch.where(index < 0, index, index + offset) if offset else index)
            offset += math.prod(only[1] if only is not None and axis is only[0] else axis.size for axis in term)
        else:
            indices.append(torch.full_like(index, -1))
        factors.append(factor)
    return (indices[0], factors[0]) if len(layout) == 1 else (torch.cat(indices), torch.cat(factors))


def _expand_term(
    term: tuple[Axis, ...], expansions: Mapping[Axis, Expansion], only: tuple[Axis, int] | None
) -> Expansion:
    """The expansion of axes that are nested in each other, the outermost first."""
    if len(term) == 1:
        return expansions.get(term[0]) or _identity(term[0].size)
    index, factor = torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.float64)
    for axis in term:
        inner, scale = expansions.get(axis) or _identity(axis.size)
        size = only[1] if only is not None and axis is only[0] else axis.size
        missing = (index[:, None] < 0) | (inner[None, :] < 0)
        index = (index[:, None] * size + inner[None, :]).masked_fill(missing, -1).flatten()
        factor = (factor[:, None] * scale[None, :]).flatten()
    return index, factor


def spread(tensor: Tensor, expansions: Mapping[int, Expansion]) -> Tensor:
    """The tensor with dimensions expanded; entries with index -1 are zero."""
    return Spread(expansions)(tensor)


class Spread:
    """The expansion of some dimensions, worked out once for the many tensors of one shape that go through it.

    Args:
        expansions: index and factor for each entry of each dimension that changes; -1 gives zero.
        like: one that has some of these very expansions, and has worked them out already.
    """

    def __init__(self, expansions: Mapping[int, Expansion], like: Spread | None = None) -> None:
        self.expansions = expansions
        self._dims: dict[int, tuple[Tensor, Tensor | None]] = {}
        for dim, expansion in expansions.items():
            if like is not None and like.expansions.get(dim) is expansion:
                self._dims[dim] = like._dims[dim]
                continue
            index, factor = expansion
            scale = torch.where(index < 0, torch.zeros_like(factor), factor)
            self._dims[dim] = (index.clamp(min=0), None if bool((scale == 1).all()) else scale)
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
            for dim, (index, scale) in self._dims.items():
                size = tensor.shape[dim]
                if scale is None and len(index) == size and torch.equal(index, torch.arange(size)):
                    continue
                shape = [1] * tensor.dim()
                shape[dim] = -1
                placed = None if scale is None else scale.to(tensor).view(shape)
                steps.append((dim, index.to(tensor.device), placed))
            self._ready[key] = steps
        return self._ready[key]


class Plan:
    """Where the entries of every tensor go, for one set of widenings.

    Args:
        coupling: of the network as it is.
        widenings: what grows, by group.
    """

    def __init__(self, coupling: Coupling, widenings: Widenings) -> None:
        unknown = sorted(set(widenings) - set(coupling.groups))
        if unknown:
            raise ConfigError(f"groups to widen must be among {sorted(coupling.groups)}, but got {unknown}.")
        self.coupling = coupling
        self.widenings = {name: widening for name, widening in widenings.items() if widening.num_added}
        self.groups = {name: coupling.groups[name] for name in self.widenings}
        self.index: dict[Axis, Tensor] = {}
        self.counts: dict[Axis, Tensor] = {}
        self.roles: dict[tuple[str, int], str] = {}
        self._known_axes: dict[float, dict[Axis, Expansion]] = {}
        for name, widening in self.widenings.items():
            group = self.groups[name]
            widening.check(group)
            new = torch.full((widening.num_new,), -1)
            self.index[group.axis] = torch.cat([torch.arange(group.size), widening.sources.cpu(), new])
            self.counts[group.axis] = copies(group, widening)
            for slot in group.slots:
                self.roles[slot.tensor, slot.dim] = slot.role
        self.tensors = list(dict.fromkeys(tensor for tensor, _ in self.roles))
        # Candidates are trained through a plan for many steps, so what depends on shapes alone is worked out once.
        self._regular = {name: Spread(self._dims(name, "in", 1.0)) for name in self.tensors}
        self._fixed: dict[str, tuple[Tensor, int, Tensor]] = {}
        self._places: dict[str, list[tuple[str, str, str, _Placement]]] = {name: [] for name in self.tensors}
        for group in self.groups.values():
            for slot in group.slots:
                layout, widening = coupling.layouts[slot.tensor][slot.dim], self.widenings[group.name]
                place = _Placement(group, widening, layout, self.index, self._regular[slot.tensor], slot.dim)
                self._places[slot.tensor].append((group.name, slot.role, slot.start, place))

    def sizes(self) -> dict[Axis, int]:
        """The size of each axis that grows, afterwards."""
        return {axis: len(index) for axis, index in self.index.items()}

    def _dims(self, tensor: str, role: str, power: float) -> dict[int, Expansion]:
        """Every expanded dimension of a tensor; those of a role are divided by the copies to a power."""
        dims = {}
        for (name, dim), own in self.roles.items():
            if name == tensor:
                divides = own == role or (role == "out" and own == "follow")
                axes = self._axes(-power if divides else 0.0)
                dims[dim] = expand_layout(self.coupling.layouts[tensor][dim], axes)
        return dims

    def _axes(self, power: float) -> dict[Axis, Expansion]:
        """The expansion of every axis, its entries times the copies to a power."""
        if power not in self._known_axes:
            self._known_axes[power] = {
                axis: (index, self.counts[axis].double() ** power) for axis, index in self.index.items()
            }
        return self._known_axes[power]

    def grow_weight(self, name: str, tensor: Tensor) -> Tensor:
        """A weight after the widenings; differentiable in it and in the widenings' own tensors."""
        result = self._spread_weight(name, tensor)
        for group, role, start, place in self._places[name]:
            widening = self.widenings[group]
            if role != "in" and name in widening.steps and len(widening.sources):
                steps = widening.steps[name].to(result)
                result = result + place.parting(steps)
            if widening.num_new:
                given = widening.outgoing if role == "in" else widening.incoming
                if name in given:
                    result = result + place.new(given[name].to(result))
                elif role == "follow":
                    result = result + place.new(neutral(tensor, start, place.dim, place.num_new_entries))
        return result

    def _spread_weight(self, name: str, tensor: Tensor) -> Tensor:
        """The weight alone, expanded; one that nothing learns is expanded once, for all steps of its candidates."""
        if tensor.requires_grad:
            return self._regular[name](tensor)
        known = self._fixed.get(name)
        if known is None or known[0] is not tensor or known[1] != tensor._version:
            known = self._fixed[name] = (tensor, tensor._version, self._regular[name](tensor))
        return known[2]

    def new_entries(self, name: str, group: str, wide: Tensor) -> Tensor:
        """What the new units of a group hold in a wide tensor of one dimension (a batch norm's statistics)."""
        return next(place for other, _, _, place in self._places[name] if other == group).take_new(wide)

    def grow_state(self, name: str, tensor: Tensor, power: float = 1.0) -> Tensor:
        """What gathers gradients of a weight (momentum: power 1, second moments: power 2), after the widenings.

        A copy's gradient is the original's divided by the number of copies, because the weights that sum over it
        were; the gradients of those stay. New units start from zero.
        """
        return spread(tensor, self._dims(name, "out", power))


class _Placement:
    """Where a widening's own tensors go in one dimension of one weight, with all other dimensions as usual."""

    def __init__(
        self,
        group: Group,
        widening: Widening,
        layout: Layout,
        indices: Mapping[Axis, Tensor],
        regular: Spread,
        dim: int,
    ) -> None:
        self.dim = dim
        old, num_copies, num_new = group.size, len(widening.sources), widening.num_new
        per_unit = sum(_size(term) // group.size for term in layout if group.axis in term)
        self.num_new_entries = per_unit * num_new

        def spread_of(index: Tensor, factor: Tensor, num_units: int) -> Spread:
            # Other axes in this dimension expand as usual; this one reads the widening's tensor.
            axes = {axis: (other, torch.ones(len(other), dtype=torch.float64)) for axis, other in indices.items()}
            axes[group.axis] = (index, factor)
            own = expand_layout(layout, axes, only=(group.axis, num_units))
            return Spread({**regular.expansions, dim: own}, like=regular)

        def nothing() -> tuple[Tensor, Tensor]:
            size = old + num_copies + num_new
            return torch.full((size,), -1), torch.ones(size, dtype=torch.float64)

        # The steps of several copies of one unit add up in it: one round for each. The first has the copies too.
        self._parting: list[Spread] = []
        for taken in _rounds(widening.sources.tolist()):
            index, factor = nothing()
            index[list(taken)] = torch.tensor(list(taken.values()))
            if not self._parting:
                index[old : old + num_copies] = torch.arange(num_copies)
                factor[old : old + num_copies] = -1.0
            self._parting.append(spread_of(index, factor, num_copies))
        if num_new:
            index, factor = nothing()
            index[old + num_copies :] = torch.arange(num_new)
            self._new = spread_of(index, factor, num_new)

    def parting(self, tensor: Tensor) -> Tensor:
        """By how much the units that are split change, and, with the other sign, their copies."""
        first, *others = [place(tensor) for place in self._parting]
        for other in others:
            first = first + other
        return first

    def new(self, tensor: Tensor) -> Tensor:
        """Entries of the new units."""
        return self._new(tensor)

    def take_new(self, wide: Tensor) -> Tensor:
        """The entries of the new units in a wide tensor of one dimension, in the order of ``incoming``."""
        index, _ = self._new.expansions[self.dim]
        places = (index >= 0).nonzero()[:, 0]
        result = wide.new_zeros(self.num_new_entries)
        result[index[places]] = wide[places]
        return result


def _rounds(sources: list[int]) -> list[dict[int, int]]:
    """The places of units in a list, cut so that no unit appears twice in a round."""
    rounds: list[dict[int, int]] = []
    for place, unit in enumerate(sources):
        free = next((taken for taken in rounds if unit not in taken), None)
        if free is None:
            rounds.append(free := {})
        free[unit] = place
    return rounds


def _size(term: tuple[Axis, ...]) -> int:
    size = 1
    for axis in term:
        size *= axis.size
    return size


def neutral(tensor: Tensor, start: str, dim: int, num_entries: int) -> Tensor:
    """What a new channel starts with where nothing was given: 0, 1, or the mean over the channels there are."""
    shape = list(tensor.shape)
    shape[dim] = num_entries
    if start == "zero":
        return tensor.new_zeros(shape)
    if start == "one":
        return tensor.new_ones(shape)
    return tensor.detach().mean(dim, keepdim=True).expand(shape)


def units_of_entries(layout: Layout, axis: Axis, num_units: int) -> Tensor:
    """For each entry of a widening's own tensor along its dimension, the unit that it belongs to, shape [entries]."""
    parts = []
    for term in layout:
        if axis in term:
            place = term.index(axis)
            outer, inner = _size(term[:place]), _size(term[place + 1 :])
            parts.append(torch.arange(num_units).repeat_interleave(inner).repeat(outer))
    return torch.cat(parts)


def slot_shape(coupling: Coupling, group: Group, tensor: str, dim: int, num_units: int) -> tuple[int, ...]:
    """The shape of a widening's own tensor: as the weight, with this many units in place of the group's."""
    layout = coupling.layouts[tensor]
    shape = [sum(_size(term) for term in other) for other in layout]
    shape[dim] = sum(_size(term) // group.axis.size * num_units for term in layout[dim] if group.axis in term)
    return tuple(shape)
