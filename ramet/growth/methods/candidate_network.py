"""A network with every candidate in it at once, each behind a step size e_i of its own.

f(x) = sum_i (s(x, theta_i + e_i d_i) + s(x, theta_i - e_i d_i)) / 2 + sum_j e_j s(x, d_j) (section 2.2 of the Firefly
paper), with the new layers I + h of section 2.3. The weights theta stay fixed; the step sizes e and directions d are
leaves that can be trained or differentiated through. In a network of more than two layers a neuron has outgoing weights
of its own: those of a new one are e_j u_j, where u_j is trained with d_j. Where norms run over the units the step size
is on the other side, (e_j d_j, u_j), because such a unit changes nothing as long as nothing comes in; to first order in
e_j the two are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, GrowthContext
from ramet.growth.surgery.layers import Deepening, deepen, unwrapped
from ramet.growth.surgery.widening import Widening, WideningPlan, slot_shape, units_of_entries
from ramet.growth.surgery.writing import read_tensor, widen
from ramet.growth.tracing.checking import find_coupling
from ramet.seeding import seeded_globally
from ramet.tracing.axes import Axis, Layout, single
from ramet.tracing.coupling import Group
from ramet.tracing.expansions import Expansion, expand_layout
from ramet.tracing.probing import copy_network
from ramet.training import output_of

LAYER_TENSORS = ("inner.weight", "inner.bias", "outer.weight")


MOST_NEW = 16
"""New candidates of a group, if their number is left to its size."""


class Direction:
    """A part of the directions: one tensor, which becomes a leaf, whose units run along the dimension ``dim``.

    ``layout`` is what that dimension is made of in the weight that the tensor belongs to, ``axis`` the group's.
    """

    def __init__(self, value: Tensor, dim: int, layout: Layout, axis: Axis, num_units: int) -> None:
        self.value, self.dim, self.axis, self.num_units = value.requires_grad_(), dim, axis, num_units
        self.layout = tuple(term for term in layout if axis in term)
        units = units_of_entries(layout, axis, num_units)  # [entries]
        self.units = units.to(value.device)
        self._others = [other for other in range(value.dim()) if other != dim]
        self._is_plain = value.shape[dim] == num_units and torch.equal(units, torch.arange(num_units))

    def per_entry(self, per_unit: Tensor) -> Tensor:
        """Numbers of units, shaped to multiply the tensor."""
        return _along(per_unit if self._is_plain else per_unit[self.units], self.value, self.dim)

    def norms(self) -> Tensor:
        """The norm of each unit's part, shape [units]."""
        if not self._is_plain:
            rows = self.value.square().sum(self._others) if self._others else self.value.square()
            return rows.new_zeros(self.num_units).index_add(0, self.units, rows).sqrt()
        return torch.linalg.vector_norm(self.value, dim=self._others) if self._others else self.value.abs()

    def rows(self, tensor: Tensor) -> Tensor:
        """A tensor of this one's shape as rows, shape [units, weights of a unit]."""
        order = self.units.argsort(stable=True)
        return tensor.movedim(self.dim, 0)[order].reshape(self.num_units, -1)

    def from_rows(self, rows: Tensor) -> Tensor:
        """The inverse of ``rows``."""
        moved = torch.empty_like(self.value.detach().movedim(self.dim, 0))
        moved[self.units.argsort(stable=True)] = rows.reshape(moved.shape)
        return moved.movedim(0, self.dim)

    def take(self, units: Sequence[int], factor: Tensor | None = None) -> Tensor:
        """The entries of some units in their order, times a number for each."""
        chosen = Expansion(torch.tensor(units))
        index = expand_layout(self.layout, {self.axis: chosen}, only=(self.axis, self.num_units)).index
        taken = self.value.detach().index_select(self.dim, index.to(self.value.device))
        if factor is None:
            return taken
        entries = units_of_entries(self.layout, self.axis, len(units)).to(factor.device)
        return taken * _along(factor[entries], taken, self.dim)


def _along(values: Tensor, tensor: Tensor, dim: int) -> Tensor:
    shape = [1] * tensor.dim()
    shape[dim] = -1
    return values.view(shape)


class CandidateBlock:
    """The candidates of one kind in one place: their step sizes' place in the vector, and their directions.

    New units have their step size on their outgoing weights, or, where norms run over them, on their incoming ones.
    """

    def __init__(self, kind: str, where: str, first: int, count: int, steps_in: bool = False) -> None:
        self.kind, self.where, self.first, self.count, self.steps_in = kind, where, first, count, steps_in
        self.incoming: dict[str, Direction] = {}
        self.outgoing: dict[str, Direction] = {}

    def epsilon(self, epsilon: Tensor) -> Tensor:
        """This part of all step sizes, shape [count]."""
        return epsilon[self.first : self.first + self.count]

    def spread(self, directions: Mapping[str, Direction], rows: Tensor) -> list[Tensor]:
        """Rows, one a unit, as tensors of these directions."""
        widths = [direction.value.numel() // self.count for direction in directions.values()]
        parts = zip(directions.values(), torch.split(rows, widths, 1), strict=True)
        return [direction.from_rows(part) for direction, part in parts]

    def write(self, directions: Mapping[str, Direction], rows: Tensor) -> None:
        """Give directions of this part the values of rows, one a unit."""
        with torch.no_grad():
            for direction, tensor in zip(directions.values(), self.spread(directions, rows), strict=True):
                direction.value.copy_(tensor)


class CandidateNetwork:
    """Every candidate of a step at once; the arguments are those of ``Firefly``."""

    def __init__(
        self,
        context: GrowthContext,
        *,
        split: bool = True,
        num_new: int | None = 0,
        layer_width: int = 0,
        only: Iterable[str] | None = None,
        new_scale: float = 0.1,
    ) -> None:
        self.context, self.new_scale = context, new_scale

        tied = {name: count for tie in context.coupling.ties for name, count in tie.items()}

        def new_units(group: Group) -> int:
            wanted = min(group.size, MOST_NEW) if num_new is None else num_new
            return max(wanted, tied.get(group.name, 0)) if wanted else 0  # fewer than its tie has could not be chosen

        self._generator = context.generator("directions")
        over, coupling = copy_network(context.network), context.coupling
        self.sites = [site.name for site in context.sites] if layer_width else []
        self.layer_paths: dict[str, str] = {}
        for site in context.sites if layer_width else []:
            with seeded_globally(context.seed, "layer", site.name):
                self.layer_paths[site.name] = deepen(over, site, Deepening(site.name, layer_width))
        if self.sites:
            coupling = find_coupling(over, context.x[:2])
        self.coupling = coupling
        self._renamed = {name: unwrapped(name, self._fresh_sites()) for name in coupling.layouts}
        wanted = set(context.coupling.groups if only is None else only)
        if unknown := sorted(wanted - set(context.coupling.groups)):
            raise ConfigError(
                f"groups that may grow must be among {sorted(context.coupling.groups)}, but got {unknown}."
            )
        self.groups: dict[str, Group] = {}
        for group in coupling.groups.values():
            name = self._group_name(group)
            if name in wanted and name in context.coupling.groups:
                self.groups[name] = group
        self.parts: list[CandidateBlock] = []
        self._tensors = {name: read_tensor(over, name).detach() for name in coupling.layouts}
        for name, group in self.groups.items():
            if split and not group.norms:
                self._add_split(name, group)
            if new_units(group):
                self._add_new(name, group, new_units(group))
        for site_name, path in self.layer_paths.items():
            self._add_layer(site_name, path, layer_width)
        self.candidates = [Candidate(part.kind, part.where, unit) for part in self.parts for unit in range(part.count)]
        self._widenings = {
            group.name: Widening(
                sources=torch.arange(group.size if split and not group.norms else 0), num_new=new_units(group)
            )
            for group in self.groups.values()
        }
        self.big = over
        self.plan: WideningPlan = widen(self.big, coupling, self._widenings)
        self._grown = set(self.plan.tensors)
        self._has_ties = any(len(names) > 1 for names in coupling.aliases.values())
        self._statistics_names = {name for name, _ in self.big.named_buffers()}
        self.big.eval()
        # Batch statistics of new channels are not known yet: norms use the batch, everything else is as in evaluation.
        for module in self.big.modules():
            if isinstance(module, nn.modules.batchnorm._NormBase):
                module.train()

    def _fresh_sites(self) -> list[str]:
        return [site for site, path in self.layer_paths.items() if path == f"{site}.1"]

    def _group_name(self, group: Group) -> str:
        module, mark, number = group.name.partition("#")
        return unwrapped(f"{module}.", self._fresh_sites()).removesuffix(".") + mark + number

    def _layer_of(self, tensor: str) -> str | None:
        return next((path for path in self.layer_paths.values() if tensor.startswith(f"{path}.")), None)

    def _draw(self, shape: tuple[int, ...], like: Tensor, scale: float) -> Tensor:
        return (scale * torch.randn(shape, generator=self._generator)).to(like)

    def _direction(self, group: Group, tensor: str, dim: int, num_units: int, scale: float) -> Direction:
        shape = slot_shape(self.coupling, group, tensor, dim, num_units)
        value = self._draw(shape, self._tensors[tensor], scale)
        return Direction(value, dim, self.coupling.layouts[tensor][dim], group.axis, num_units)

    def _next(self, kind: str, where: str, count: int, steps_in: bool = False) -> CandidateBlock:
        first = self.parts[-1].first + self.parts[-1].count if self.parts else 0
        self.parts.append(CandidateBlock(kind, where, first, count, steps_in))
        return self.parts[-1]

    def _add_split(self, name: str, group: Group) -> None:
        part = self._next("split", name, group.size)
        for slot in group.slots:
            if slot.role == "out" and self._layer_of(slot.tensor) is None:
                part.incoming[slot.tensor] = self._direction(group, slot.tensor, slot.dim, group.size, 1.0)
        _bound(part.incoming, exactly=True)

    def _add_new(self, name: str, group: Group, count: int) -> None:
        part = self._next("new", name, count, bool(group.norms))
        scales = (1.0, self.new_scale) if part.steps_in else (self.new_scale, 1.0)
        for slot in group.slots:
            if self._layer_of(slot.tensor) is not None:
                continue
            if slot.role == "out" or slot.start == "draw":
                part.incoming[slot.tensor] = self._direction(group, slot.tensor, slot.dim, count, scales[0])
            elif slot.role == "in":
                part.outgoing[slot.tensor] = self._direction(group, slot.tensor, slot.dim, count, scales[1])
        _bound(part.incoming, exactly=part.steps_in)
        _bound(part.outgoing, exactly=not part.steps_in)

    def _add_layer(self, site: str, path: str, width: int) -> None:
        part, axis = self._next("layer", site, width), Axis(width)
        for leaf in LAYER_TENSORS:
            name = f"{path}.{leaf}"
            if name in self._tensors:
                value = self._tensors[name]
                dim = 1 if leaf == "outer.weight" else 0
                store = part.outgoing if leaf == "outer.weight" else part.incoming
                scale = 1.0 if leaf == "outer.weight" else self.new_scale
                drawn = self._draw(tuple(value.shape), value, scale)
                store[name] = Direction(drawn, dim, single(axis), axis, width)
        _bound(part.incoming)
        _bound(part.outgoing, exactly=True)

    @property
    def dtype(self) -> torch.dtype:
        """The network's floating-point type."""
        return next((t.dtype for t in self._tensors.values() if t.is_floating_point()), torch.float32)

    @property
    def device(self) -> torch.device:
        """Where the network's tensors are."""
        return next((t.device for t in self._tensors.values()), torch.device("cpu"))

    def step_sizes(self, value: float) -> Tensor:
        """A step size for every candidate, all alike, shape [candidates]."""
        return torch.full((len(self.candidates),), value, dtype=self.dtype, device=self.device)

    def directions(self) -> list[Tensor]:
        """Every direction's tensor: the leaves that step one trains beside the step sizes."""
        return [d.value for part in self.parts for d in [*part.incoming.values(), *part.outgoing.values()]]

    def bound(self) -> None:
        """Bring every unit's direction back to a norm of at most 1: incoming and outgoing each."""
        for part in self.parts:
            _bound(part.incoming)
            _bound(part.outgoing)

    def tensors(self, epsilon: Tensor) -> dict[str, Tensor]:
        """The wide network's tensors at these step sizes, shape [candidates]; differentiable."""
        values = dict(self._tensors)
        pieces = torch.split(epsilon, [part.count for part in self.parts])
        for part, steps in zip(self.parts, pieces, strict=True):
            if part.kind == "layer":
                values.update({name: d.value for name, d in part.incoming.items()})
                values.update({name: d.value * d.per_entry(steps) for name, d in part.outgoing.items()})
                continue
            widening = self._widenings[self.groups[part.where].name]
            if part.kind == "split":
                widening.steps = {name: d.value * d.per_entry(steps) for name, d in part.incoming.items()}
                continue
            stepping, free = (part.incoming, part.outgoing) if part.steps_in else (part.outgoing, part.incoming)
            small = {name: d.value * d.per_entry(steps) for name, d in stepping.items()}
            plain = {name: d.value for name, d in free.items()}
            widening.incoming, widening.outgoing = (small, plain) if part.steps_in else (plain, small)
        return {
            name: self.plan.grow_weight(name, value) if name in self._grown else value
            for name, value in values.items()
            if name not in self._statistics_names
        }

    def __call__(self, x: Tensor, epsilon: Tensor) -> Tensor:
        """The outputs of the wide network."""
        return output_of(functional_call(self.big, self.tensors(epsilon), (x,), tie_weights=self._has_ties))

    def edit(self, chosen: Sequence[int], epsilon: Tensor) -> Edit:
        """The chosen candidates as an edit of the context's network, with these step sizes."""
        taken: dict[int, list[int]] = {}
        for number in sorted(chosen):
            place = next(i for i, part in enumerate(self.parts) if part.first <= number < part.first + part.count)
            taken.setdefault(place, []).append(number - self.parts[place].first)
        edit = Edit()
        for place, units in taken.items():
            part = self.parts[place]
            steps = part.epsilon(epsilon.detach())[units]
            if part.kind == "layer":
                edit.layers.append(self._layer(part, units, steps))
                continue
            widening = edit.widenings.setdefault(part.where, Widening())
            if part.kind == "split":
                widening.sources = torch.tensor(units)
                widening.steps = {self._renamed[n]: d.take(units, steps) for n, d in part.incoming.items()}
            else:
                widening.num_new = len(units)
                factors = (steps, None) if part.steps_in else (None, steps)
                widening.incoming = {self._renamed[n]: d.take(units, factors[0]) for n, d in part.incoming.items()}
                widening.incoming.update(self._statistics(part, units))
                widening.outgoing = {self._renamed[n]: d.take(units, factors[1]) for n, d in part.outgoing.items()}
        return edit

    def _statistics(self, part: CandidateBlock, units: list[int]) -> dict[str, Tensor]:
        """The batch statistics that the new units had while they were trained."""
        group, found = self.groups[part.where], {}
        buffers = dict(self.big.named_buffers())
        for slot in group.slots:
            if slot.tensor in buffers and buffers[slot.tensor].dim() == 1:
                values = self.plan.new_entries(slot.tensor, group.name, buffers[slot.tensor])
                layout = self.coupling.layouts[slot.tensor][slot.dim]
                held = Direction(values.detach().clone(), 0, layout, group.axis, part.count)
                found[self._renamed[slot.tensor]] = held.take(units)
        return found

    def _layer(self, part: CandidateBlock, units: list[int], steps: Tensor) -> Deepening:
        path = self.layer_paths[part.where]
        tensors = {name.removeprefix(f"{path}."): d.take(units) for name, d in part.incoming.items()}
        tensors.update({name.removeprefix(f"{path}."): d.take(units, steps) for name, d in part.outgoing.items()})
        for name, buffer in self.big.get_submodule(path).named_buffers():
            if buffer.dim() == 1:
                tensors[name] = buffer.detach()[units].clone()
        return Deepening(part.where, len(units), tensors)


def _bound(directions: dict[str, Direction], exactly: bool = False) -> None:
    """Scale each unit's direction over all its tensors to a norm of at most 1, or of exactly 1."""
    if not directions:
        return
    with torch.no_grad():
        first, *others = [d.norms() for d in directions.values()]
        norms = torch.linalg.vector_norm(torch.stack([first, *others]), dim=0) if others else first
        factor = norms.clamp(min=1e-12 if exactly else 1.0).reciprocal()
        for d in directions.values():
            d.value.mul_(d.per_entry(factor).to(d.value))
