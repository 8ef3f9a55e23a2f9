"""The size of a network at any width, without building it, and what of the candidates fits a budget.

Sizes come from the layouts that the trace found: so the choice among thousands of candidates is exact arithmetic,
interactions between neighbouring layers included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from ramet.growth.budget import MEASURED
from ramet.growth.surgery.blocks import BlockSite
from ramet.growth.surgery.layers import Site
from ramet.tracing.axes import Axis
from ramet.tracing.coupling import Coupling
from ramet.tracing.expansions import wider


class Meter:
    """The size of a network and of further units; latency follows multiplications, from what was ``measured`` now."""

    def __init__(
        self,
        network: nn.Module,
        coupling: Coupling,
        sites: Sequence[Site],
        unit: str,
        measured: float = 0.0,
        blocks: Sequence[BlockSite] = (),
    ) -> None:
        self.unit, self.measured = unit, measured
        self.groups, self.ties = coupling.groups, coupling.ties
        self.sites = list(sites)
        self._numbers = {site.name: number for number, site in enumerate(sites)}
        self.sizes: dict[Axis, int] = {}
        self.layers: dict[str, int] = {}
        self.blocks: dict[str, int] = {}
        trainable = {name for name, p in network.named_parameters() if p.requires_grad}
        products = [(1.0, layouts) for name, layouts in coupling.layouts.items() if name in trainable]
        places = [name for name in coupling.layouts if name in trainable]
        if unit in ("flops", *MEASURED):
            products = [(work.constant / coupling.batch_size, work.dims) for work in coupling.works]
            places = [f"{work.module}." for work in coupling.works]
        self.products = products
        self._inside = {
            block.name: [number for number, place in enumerate(places) if place.startswith(f"{block.name}.")]
            for block in blocks
        }
        self._around = {number: name for name, numbers in self._inside.items() for number in numbers}
        self._units_inside = {
            block.name: sum(
                group.size
                for group in self.groups.values()
                if all(slot.tensor.startswith(f"{block.name}.") for slot in group.slots if slot.role == "out")
            )
            for block in blocks
        }
        self.users: dict[Axis, list[int]] = {}
        for number, (_, layouts) in enumerate(products):
            self._register(number, [axis for layout in layouts for term in layout for axis in term])
        for number, site in enumerate(sites, len(products)):
            self._register(number, [axis for term in site.layout for axis in term])
        self.values = [self._value(number) for number in range(len(products) + len(sites))]
        self._units = sum(group.size for group in self.groups.values())
        self.first = sum(self.values)
        self._total = self.first

    def _register(self, number: int, axes: Sequence[Axis]) -> None:
        for axis in dict.fromkeys(axes):
            self.users.setdefault(axis, []).append(number)

    def _value(self, number: int) -> float:
        if number < len(self.products):
            constant, layouts = self.products[number]
            constant *= 1 + self.blocks.get(self._around.get(number, ""), 0)
            return constant * math.prod(wider(layout, self.sizes) for layout in layouts)
        site = self.sites[number - len(self.products)]
        per_unit = site.work_per_unit if self.unit in ("flops", *MEASURED) else site.weights_per_unit
        return self.layers.get(site.name, 0) * per_unit(self.sizes)

    def _update(self, number: int) -> None:
        if self.unit == "neurons":
            return  # units are counted as they are; nothing is weighed
        self._total -= self.values[number]
        self.values[number] = self._value(number)
        self._total += self.values[number]

    @property
    def size(self) -> float:
        """The size with everything that was added so far."""
        if self.unit == "neurons":
            return self._units
        return self._total * (self.measured / self.first if self.unit in MEASURED else 1.0)

    def add(self, kind: str, where: str, count: int = 1) -> float:
        """Count ``count`` more units (or, negative, fewer) of a group or of a new layer; returns the change of size."""
        before = self.size
        self._units += count * (self._units_inside[where] if kind == "block" else 1)
        if kind == "block":
            self.blocks[where] = self.blocks.get(where, 0) + count
            for number in self._inside[where]:
                self._update(number)
        elif kind == "layer":
            self.layers[where] = self.layers.get(where, 0) + count
            if not self.layers[where]:
                del self.layers[where]
            self._update(len(self.products) + self._numbers[where])
        else:
            axis = self.groups[where].axis
            self.sizes[axis] = self.sizes.get(axis, axis.size) + count
            for number in self.users.get(axis, []):
                self._update(number)
        return self.size - before


def select(
    meter: Meter,
    places: Sequence[tuple[str, str]],
    scores: Tensor,
    allowance: float,
    max_layers: int,
    min_units: int = 2,
    most: int | None = None,
) -> list[int]:
    """The candidates with the highest scores that fit the allowance, greedily (sections 2.2 and 2.3), best first.

    Candidates that do not fit are passed over, so that a cheaper one further down may still be taken; the paper stops
    at the first. A new layer is only made for at least ``min_units`` of its neurons (B.2), at no more than
    ``max_layers`` sites, copies of blocks included; the room of those that stay below is given to the next best
    candidates. A score of minus infinity is never chosen. ``places`` has for each candidate its kind and its group or
    site; the meter counts what is chosen. Candidates of groups that are tied are chosen, and cost, together; of all
    choices there are at ``most`` so many.
    """
    choices = _choices(meter, places, scores)
    forbidden: set[str] = set()
    while True:
        chosen: list[int] = []
        room, count = allowance, 0
        for numbers in choices:
            kind, where = places[numbers[0]]
            if room <= 0 or count == most:
                break  # every candidate has a cost
            if kind == "layer" and where in forbidden:
                continue
            is_deeper = kind == "block" or (kind == "layer" and where not in meter.layers)
            if is_deeper and len(meter.layers) + sum(meter.blocks.values()) >= max_layers:
                continue
            cost = sum(meter.add(*places[number]) for number in numbers)
            if cost > room + 1e-9:
                for number in numbers:
                    meter.add(*places[number], -1)
                continue
            room, count = room - cost, count + 1
            chosen += numbers
        thin = {where for where, count in meter.layers.items() if count < min_units}
        if not thin:
            return chosen
        for number in chosen:
            meter.add(*places[number], -1)
        forbidden |= thin


def _choices(meter: Meter, places: Sequence[tuple[str, str]], scores: Tensor) -> list[list[int]]:
    """What can be chosen, best first: candidates one by one, and of tied groups as many of each as the tie says.

    The best of each group come together, then the next best; what they are worth is the mean of their scores.
    """
    order = [n for n in scores.argsort(descending=True, stable=True).tolist() if scores[n] != -math.inf]
    if not meter.ties:
        return [[number] for number in order]
    tied = {name for tie in meter.ties for name in tie}
    waiting: dict[str, list[int]] = {name: [] for name in tied}
    choices = []
    for number in order:
        kind, where = places[number]
        if kind in ("layer", "block") or where not in tied:
            choices.append([number])
        else:
            waiting[where].append(number)
    for tie in meter.ties:
        for turn in range(min(len(waiting[name]) // count for name, count in tie.items())):
            parts = (waiting[name][turn * count : (turn + 1) * count] for name, count in tie.items())
            choices.append([number for part in parts for number in part])
    return sorted(choices, key=lambda numbers: -sum(float(scores[number]) for number in numbers) / len(numbers))
