"""The arithmetic of widening: what every tensor becomes when units are split or added.

All of it is one linear map for each dimension (``tracing/expansions.py``). A unit with c copies keeps its function when
the weights that sum over it are divided by c; a new unit is silent when those that sum over it are zero. A split by the
step s = e d turns the incoming weights theta into theta + s and theta - s, the outgoing w into w / 2 twice; a new unit
has (d, e u). The wider network equals the old one at e = 0 and differs by O(e) otherwise (section 2.2 of the Firefly
paper). The functions are differentiable, so that steps and new weights can be trained through them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.tracing.axes import Axis, Layout
from ramet.tracing.coupling import Coupling, Group
from ramet.tracing.expansions import Expansion, Spread, expand_layout, spread, wider


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
        """Refuse sources outside the group, and splits of channels that norms run over."""
        if len(self.sources) and group.norms:
            raise ConfigError(
                f"units of {group.name} cannot be split, because {group.norms[0].module} takes its statistics over "
                f"them; new ones can be added, but got {len(self.sources)} to split."
            )
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


class WideningPlan:
    """Where the entries of every tensor go, for one set of widenings of the network as it is."""

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
        # Of the norms over wider dimensions: what their weights, and a number beside them, are multiplied by, and what
        # their epsilons are.
        self.scales: dict[str, tuple[float, float]] = {}
        self.epsilons: dict[tuple[str, str], float] = {}
        for norm in {norm: None for group in self.groups.values() for norm in group.norms}:
            ratio = wider(norm.layout, {}) / wider(norm.layout, self.sizes())
            self.epsilons[norm.module, norm.attribute] = ratio
            self.scales.update({tensor: (ratio**0.5, number) for tensor, number in norm.weights.items()})
        # Candidates are trained through a plan for many steps, so what depends on shapes alone is worked out once.
        self._regular = {name: Spread(self._dims(name, "in", 1.0)) for name in self.tensors}
        self._fixed: dict[str, tuple[Tensor, int, Tensor]] = {}
        self._places: dict[str, list[tuple[str, str, str, _Placement]]] = {name: [] for name in self.tensors}
        for group in self.groups.values():
            owns: dict[Layout, _Own] = {}
            for slot in group.slots:
                layout = coupling.layouts[slot.tensor][slot.dim]
                if layout not in owns:
                    owns[layout] = _Own(group, self.widenings[group.name], layout, self.axes(0.0))
                place = _Placement(owns[layout], self._regular[slot.tensor], slot.dim)
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
                axes = self.axes(-power if divides else 0.0)
                dims[dim] = expand_layout(self.coupling.layouts[tensor][dim], axes)
        return dims

    def axes(self, power: float) -> dict[Axis, Expansion]:
        """The expansion of every axis, its entries times the copies to a power."""
        if power not in self._known_axes:
            self._known_axes[power] = {
                axis: Expansion(index, self.counts[axis].double() ** power if power else None)
                for axis, index in self.index.items()
            }
        return self._known_axes[power]

    def grow_weight(self, name: str, tensor: Tensor) -> Tensor:
        """A weight after the widenings; differentiable in it and in the widenings' own tensors."""
        result = self._spread_weight(name, tensor)
        for group, role, start, place in self._places[name]:
            widening = self.widenings[group]
            steps = widening.steps.get(name) if role != "in" and len(widening.sources) else None
            new = None
            if widening.num_new:
                new = (widening.outgoing if role == "in" else widening.incoming).get(name)
                if role == "out" and self.groups[group].norms:
                    base = neutral(tensor, start, place.dim, place.own.num_new_entries)
                    new = base if new is None else base + new.to(base)
                elif new is None and role == "follow":
                    new = neutral(tensor, start, place.dim, place.own.num_new_entries)
            if steps is not None or new is not None:
                result = result + place(_like(steps, result), _like(new, result))
        if name not in self.scales:
            return result
        scale, number = self.scales[name]
        return (result + number) * scale - number if number else result * scale

    def _spread_weight(self, name: str, tensor: Tensor) -> Tensor:
        """The weight alone, expanded; one that nothing learns is expanded once, for all steps of its candidates."""
        if tensor.requires_grad:
            return self._regular[name](tensor)
        known = self._fixed.get(name)
        if known is None or known[0] is not tensor or known[1] != tensor._version:
            known = self._fixed[name] = (tensor, tensor._version, self._regular[name](tensor))
        return known[2]

    def forget(self, name: str) -> None:
        """Keep nothing of a weight: of a network that is widened once, the plan would hold all weights twice more."""
        self._fixed.pop(name, None)

    def new_entries(self, name: str, group: str, wide: Tensor) -> Tensor:
        """What the new units of a group hold in a wide tensor of one dimension (a batch norm's statistics)."""
        return next(place for other, _, _, place in self._places[name] if other == group).take_new(wide)

    def grow_state(self, name: str, tensor: Tensor, power: float = 1.0) -> Tensor:
        """What gathers gradients of a weight (momentum: power 1, second moments: power 2), after the widenings.

        A copy's gradient is the original's divided by the number of copies, because the weights that sum over it
        were; the gradients of those stay. New units start from zero. The gradient of a norm's weights, which become
        smaller with more channels, becomes larger by as much.
        """
        grown = spread(tensor, self._dims(name, "out", power))
        return grown * self.scales[name][0] ** -power if name in self.scales else grown


class _Own:
    """How a widening's own tensors expand along a dimension of one layout: this group's axis reads them.

    ``axes`` are the expansions of all axes that grow, without factors: others in the dimension grow as usual.
    """

    def __init__(self, group: Group, widening: Widening, layout: Layout, axes: Mapping[Axis, Expansion]) -> None:
        self._axis, self._layout, self._axes = group.axis, layout, axes
        self._sources, self._num_new = widening.sources, widening.num_new
        per_unit = sum(_size(term) // group.size for term in layout if group.axis in term)
        self.num_step_entries, self.num_new_entries = per_unit * len(self._sources), per_unit * self._num_new

    @functools.cached_property
    def steps(self) -> list[Expansion]:
        """The steps of several copies of one unit add up in it: one round for each. The first has the copies too."""
        old, num_copies = self._axis.size, len(self._sources)
        expansions: list[Expansion] = []
        for taken in _rounds(self._sources.tolist()):
            index = self._nothing()
            factor = torch.ones(len(index), dtype=torch.float64)
            index[list(taken)] = torch.tensor(list(taken.values()))
            if not expansions:
                index[old : old + num_copies] = torch.arange(num_copies)
                factor[old : old + num_copies] = -1.0
            expansions.append(self._expand(Expansion(index, factor), num_copies))
        return expansions

    @functools.cached_property
    def new(self) -> Expansion:
        """New units come last."""
        index = self._nothing()
        index[self._axis.size + len(self._sources) :] = torch.arange(self._num_new)
        return self._expand(Expansion(index), self._num_new)

    @functools.cached_property
    def both(self) -> Expansion:
        """The first round of steps and the new units, of a tensor that holds the one behind the other."""
        return self.new.or_else(self.steps[0], self.num_step_entries)

    def _nothing(self) -> Tensor:
        return torch.full((self._axis.size + len(self._sources) + self._num_new,), -1)

    def _expand(self, own: Expansion, num_units: int) -> Expansion:
        return expand_layout(self._layout, {**self._axes, self._axis: own}, only=(self._axis, num_units))


class _Placement:
    """Where a widening's own tensors go in one dimension of one weight, with all other dimensions as usual."""

    def __init__(self, own: _Own, regular: Spread, dim: int) -> None:
        self.own, self.dim = own, dim
        self._regular = regular
        self._spreads: dict[Expansion, Spread] = {}

    def __call__(self, steps: Tensor | None, new: Tensor | None) -> Tensor:
        """What the widening adds to the expanded weight, by the steps of its splits and the entries of new units."""
        if steps is None:
            assert new is not None
            return self._spread(self.own.new)(new)
        first, *others = self.own.steps
        if new is None:
            result = self._spread(first)(steps)
        else:
            result = self._spread(self.own.both)(torch.cat([steps, new], self.dim))
        for other in others:
            result = result + self._spread(other)(steps)
        return result

    def _spread(self, expansion: Expansion) -> Spread:
        if expansion not in self._spreads:
            self._spreads[expansion] = Spread({**self._regular.expansions, self.dim: expansion})
        return self._spreads[expansion]

    def take_new(self, wide: Tensor) -> Tensor:
        """The entries of the new units in a wide tensor of one dimension, in the order of ``new``."""
        index = self.own.new.index
        places = (index >= 0).nonzero()[:, 0]
        result = wide.new_zeros(self.own.num_new_entries)
        result[index[places]] = wide[places]
        return result


def _like(tensor: Tensor | None, other: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.to(other)


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
    return math.prod(axis.size for axis in term)


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
