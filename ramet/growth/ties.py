"""Groups that grow together, so that a model of Hugging Face stays one that its configuration can say.

One number of a configuration sizes groups of many layers, such as the hidden units of every MLP; several numbers may
have to change together, as the width of a stream and the number of heads. A *tie* is what the smallest such change
adds: so many units in each of its groups. Ties are found by trying (``configured.py``): a change of numbers is one if
its shapes are those of the network with more units in some groups, if its multiples and those of other ties are, too,
and if a model that is made of it gives what the network gives that was widened so. What no tie holds does not grow.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ramet.growth.configured import Configured, Number, Shapes, fitted, shapes_of
from ramet.growth.surgery.blocks import BlockSite, copy_blocks
from ramet.growth.surgery.widening import Widening
from ramet.growth.surgery.writing import widen
from ramet.tracing.axes import Axis
from ramet.tracing.coupling import Coupling, Inputs
from ramet.tracing.expansions import wider
from ramet.tracing.probing import SINGLE_TOLERANCE, copy_network

LARGEST_SET = 3
"""Numbers that are changed together: a stream, its heads, and those of its keys."""

MOST_SETS = 300
"""Sets of numbers that are tried; a configuration with lists of sizes has thousands."""


class GrownApartWarning(UserWarning):
    """A model of Hugging Face grows in a way that its configuration cannot say, so that only ramet will load it."""


@dataclass(frozen=True)
class Tie:
    """A change of a configuration's numbers, and the units that each group gains by it."""

    change: dict[Number, int]
    units: dict[str, int]


def find_ties(network: nn.Module, inputs: Inputs, coupling: Coupling, base: Configured) -> tuple[dict[str, int], ...]:
    """The ties of what can grow in a network: for each its groups, and the units that each gains by it.

    ``base`` is the configuration of the network as it is.
    """
    with torch.random.fork_rng(devices=[]):
        return tuple(tie.units for tie in _Ties(network, inputs, coupling, base.with_numbers({})).find())


def sayable_blocks(network: nn.Module, inputs: Inputs, blocks: Sequence[BlockSite]) -> list[BlockSite]:
    """The blocks whose copies leave a model that its configuration can say."""
    kept = []
    for block in blocks:
        deeper = copy_network(network)
        copy_blocks(deeper, blocks, [block.copied()])
        if fitted(deeper, inputs)[0] is not None:
            kept.append(block)
    return kept


def warn_apart(network: nn.Module, reason: str) -> None:
    """Say before a growth begins that what comes of it will be loaded by ramet alone."""
    warnings.warn(
        f"the grown {type(network).__name__} will be saved in ramet's own format only, because {reason}.",
        GrownApartWarning,
        stacklevel=3,
    )


class _Ties:
    """The search for the ties of one network; ``base`` is the configuration of the network as it is."""

    def __init__(self, network: nn.Module, inputs: Inputs, coupling: Coupling, base: Configured) -> None:
        self.network, self.inputs, self.coupling, self.base = network, inputs, coupling, base
        base.close()
        self.now = shapes_of(network)
        self.axes = {name: group.axis for name, group in coupling.groups.items()}
        names = {alias: name for name, aliases in coupling.aliases.items() for alias in aliases}
        self.places = {alias: coupling.layouts[name] for alias, name in names.items()}

    def find(self) -> list[Tie]:
        """Ties that have no group in common, those of few numbers first."""
        found: list[Tie] = []
        alone: set[Number] = set()
        useless: set[Number] = set()
        values = {number: value for number in self.base.numbers() if (value := self.base[number]) and value > 1}
        sets = [each for size in range(1, LARGEST_SET + 1) for each in itertools.combinations(values, size)]
        for numbers in sets[:MOST_SETS]:
            if useless.intersection(numbers) or (len(numbers) > 1 and alone.issuperset(numbers)):
                continue
            for change in _changes({number: values[number] for number in numbers}, values.values()):
                shapes = self._shapes([(1, change)])
                if shapes is None or shapes == self.now:
                    continue
                units = self._solve(shapes)
                if not units:
                    useless.update(numbers if len(numbers) == 1 and self._sizes_others(shapes) else ())
                    continue
                each = Tie(change, units)
                if self._is_loose(each):
                    continue
                around = [tie for tie in found if not tie.units.keys() & units.keys()]
                covered = {name for tie in found for name in tie.units}
                replaced = {name for tie in found if tie not in around for name in tie.units}
                if units.keys() - covered and replaced <= units.keys() and self._holds([*around, each]):
                    found = [*around, each]
                    alone.update(numbers if len(numbers) == 1 else ())
                    break
        return found

    def _is_loose(self, tie: Tie) -> bool:
        """Whether a number need not be in the change: without it, some groups do not grow, and the others as before."""
        for left_out in tie.change if len(tie.change) > 1 else ():
            shapes = self._shapes([(1, {number: added for number, added in tie.change.items() if number != left_out})])
            units = None if shapes is None else self._solve(shapes)
            if units and units.items() < tie.units.items():
                return True
        return False

    def _sizes_others(self, shapes: Shapes) -> bool:
        """Whether a dimension without channels that can grow has another size: words, classes or positions."""
        axes = set(self.axes.values())
        return shapes.keys() == self.now.keys() and any(
            now != size and axes.isdisjoint(axis for term in layout for axis in term)
            for name, layouts in self.places.items()
            if name in shapes
            for layout, now, size in zip(layouts, self.now[name], shapes[name], strict=True)
        )

    def _shapes(self, changes: Iterable[tuple[int, Mapping[Number, int]]]) -> Shapes | None:
        values: dict[Number, int] = {}
        for factor, change in changes:
            for number, added in change.items():
                values[number] = values.get(number, self.base[number] or 0) + factor * added
        return self.base.with_numbers(values).shapes()

    def _predicted(self, units: Mapping[str, int]) -> Shapes:
        sizes = {self.axes[name]: self.axes[name].size + added for name, added in units.items()}
        return {name: tuple(wider(layout, sizes) for layout in layouts) for name, layouts in self.places.items()}

    def _agrees(self, shapes: Shapes | None, units: Mapping[str, int]) -> bool:
        predicted = self._predicted(units)
        return shapes is not None and all(shapes[name] == predicted.get(name, shapes[name]) for name in shapes)

    def _solve(self, shapes: Shapes) -> dict[str, int] | None:
        """The units that each group must gain for the network to have these shapes; nothing if none would do."""
        unknown, sizes = set(self.axes.values()), dict[Axis, int]()
        dims = [
            (layout, shapes[name][dim])
            for name, layouts in self.places.items()
            if len(shapes.get(name, ())) == len(layouts)
            for dim, layout in enumerate(layouts)
        ]
        progress = True
        while unknown and progress:
            progress = False
            for layout, wanted in dims:
                held = {axis for term in layout for axis in term} & unknown
                if len(held) != 1:
                    continue
                (axis,) = held
                now, one_more = (wider(layout, {**sizes, axis: axis.size + more}) for more in (0, 1))
                added, rest = divmod(wanted - now, one_more - now)
                if rest or added < 0:
                    return None
                sizes[axis], progress = axis.size + added, True
                unknown.remove(axis)
        units = {name: sizes[axis] - axis.size for name, axis in self.axes.items() if sizes.get(axis, 0) > axis.size}
        return units if self._agrees(shapes, units) else None

    def _holds(self, ties: Sequence[Tie]) -> bool:
        """Whether all of these can be done, each any number of times, and give what the widened network gives."""
        others = len(ties) - 1
        double = max((self.base[number] or 1) // added for number, added in ties[-1].change.items())
        alone = [
            [0] * others + [factor] for factor in (2, 3, double)
        ]  # a rounded quotient holds for some and fails then
        factors = [*alone, [1] * others + [2], [2] * others + [1], [1] * len(ties)]
        for each in factors:
            units = {name: n * added for n, tie in zip(each, ties, strict=True) for name, added in tie.units.items()}
            if not self._agrees(self._shapes(zip(each, (tie.change for tie in ties), strict=True)), units):
                return False
        trial = copy_network(self.network)
        widen(trial, self.coupling, {n: Widening(num_new=added) for tie in ties for n, added in tie.units.items()})
        with torch.no_grad():
            for parameter in trial.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))  # new units are silent, and would tell nothing
        values = {number: (self.base[number] or 0) + added for tie in ties for number, added in tie.change.items()}
        try:
            return self.base.with_numbers(values).change(trial, self.inputs) <= SINGLE_TOLERANCE
        except Exception:  # a model's class may refuse a configuration, or inputs, in whatever way
            return False


def _changes(values: Mapping[Number, int], steps: Iterable[int]) -> Iterator[dict[Number, int]]:
    """The changes of some numbers to try: of one the smallest first, of several in proportion.

    Some sizes have to be divisible by others, which are the steps that are tried.
    """
    if len(values) > 1:
        common = math.gcd(*values.values())
        yield {number: value // common for number, value in values.items()}
        return
    ((number, value),) = values.items()
    for step in sorted({1, value, *(step for step in steps if step < value)}):
        yield {number: step}
