"""The configuration of a model of Hugging Face: which of its numbers gives which sizes, found out by trying.

Each number is changed a little, a model is made of the configuration without memory for its weights, and the shapes are
compared. No table of models is kept here, and nothing of transformers is imported.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ramet.tracing.coupling import Inputs
from ramet.tracing.probing import SINGLE_TOLERANCE, largest_change, outputs

Shapes = dict[str, tuple[int, ...]]
"""The shape of each tensor of a network, by its name."""

Number = tuple[str, int | None]
"""A number of a configuration: its name, and its place where that is a list."""

_LEFT_OPEN = ("inner", "intermediate", "ffn")
"""What sizes are called that a configuration may leave to the class, which takes a multiple of another then."""


def has_config(network: nn.Module) -> bool:
    """Whether a network is a model of Hugging Face, which ``from_pretrained`` makes of its configuration."""
    return hasattr(network, "save_pretrained") and hasattr(getattr(network, "config", None), "to_dict")


def shapes_of(network: nn.Module) -> Shapes:
    """The shapes of a network's tensors."""
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def different(found: Shapes, wanted: Shapes) -> list[str]:
    """The tensors that are not of the same shape in both, or not in both."""
    return [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]


class Configured:
    """What models of one class have what sizes: a copy of a network's configuration, whose numbers can be changed."""

    def __init__(self, network: Any) -> None:
        self.make, self.config = type(network), copy.deepcopy(network.config)
        self.refused = ""

    def __getitem__(self, number: Number) -> int | None:
        name, place = number
        value = getattr(self.config, name)
        return value if place is None else value[place]  # type: ignore[no-any-return]

    def __setitem__(self, number: Number, value: int | None) -> None:
        name, place = number
        if place is None:
            setattr(self.config, name, value)
        else:
            values = list(getattr(self.config, name))
            values[place] = value
            setattr(self.config, name, values)

    def numbers(self) -> list[Number]:
        """The numbers that may be sizes, lists of them included."""
        found: list[Number] = []
        for name, value in vars(self.config).items():
            if name.startswith("_") or name.endswith("_id"):
                continue
            if (type(value) is int and value > 0) or (value is None and any(word in name for word in _LEFT_OPEN)):
                found.append((name, None))
            elif isinstance(value, list | tuple) and all(type(each) is int and each > 0 for each in value):
                found += [(name, place) for place in range(len(value))]
        return found

    def model(self) -> Any:
        """A model of the configuration as it is read from a file, with weights that are drawn."""
        return self.make(type(self.config).from_dict(self.config.to_dict()))  # which may refuse its numbers

    def shapes(self) -> Shapes | None:
        """The shapes of a model, without memory for its weights; nothing if it is ``refused``, with these words."""
        try:
            with torch.device("meta"):
                return shapes_of(self.model())
        except Exception as error:  # a model's class may refuse a configuration in whatever way
            self.refused = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return None

    def with_numbers(self, values: dict[Number, int]) -> Configured:
        """A copy with other numbers."""
        changed = copy.copy(self)
        changed.config, changed.refused = copy.deepcopy(self.config), ""
        for number, value in values.items():
            changed[number] = value
        return changed

    def fit(self, wanted: Shapes, held: Number | None = None) -> Shapes:
        """Change number by number, but for one that is held, while fewer tensors are of another shape than wanted.

        Gives the shapes in the end.
        """
        now = self.shapes()
        assert now is not None, "the configuration that a model has makes a model"
        progress, refused = True, ""
        while different(now, wanted) and progress:
            progress = False
            for number in self.numbers():
                for other in self._proposals(number, now, wanted) if number != held else ():
                    changed = self.with_numbers({number: other})
                    found = changed.shapes()
                    if found is None:
                        refused = refused or changed.refused
                        changed, found = self._together(number, other, wanted)
                    if found is not None and len(different(found, wanted)) < len(different(now, wanted)):
                        self.config, now, progress = changed.config, found, True
                        break
        self.refused = refused
        return now

    def _together(self, number: Number, other: int, wanted: Shapes) -> tuple[Configured, Shapes | None]:
        """A number changed together with others in proportion, where it may not change alone; what fits best."""
        value = self[number] or 1
        along = {
            n: v * other // value for n in self.numbers() if n != number and (v := self[n]) and not v * other % value
        }
        found = []
        for size in (1, 2):
            for names in itertools.combinations(along, size):
                changed = self.with_numbers({number: other, **{name: along[name] for name in names}})
                if (shapes := changed.shapes()) is not None:
                    found.append((changed, shapes))
        return min(found, key=lambda pair: len(different(pair[1], wanted)), default=(self, None))

    def close(self) -> None:
        """Give the numbers that are left open the values that the class takes for them, so that each counts alone."""
        now = self.shapes()
        assert now is not None
        for number in self.numbers():
            if self[number] is None:
                for value in self._proposals(number, now, now):
                    if self.with_numbers({number: value}).shapes() == now:
                        self[number] = value
                        break

    def _proposals(self, number: Number, now: Shapes, wanted: Shapes) -> Iterator[int]:
        """Values of a number that would mend a shape: shapes are linear in each, and a count of blocks is counted."""
        value = self[number]
        if value is None:
            value = 1
            now = self.with_numbers({number: value}).shapes() or now
        for step in (1, value):  # some sizes have to be divisible by others
            found = self.with_numbers({number: value + step}).shapes()
            if found is None:
                continue
            seen = set()
            for tensor in different(found, now):
                if tensor not in now:
                    count = _count(tensor, wanted)
                elif tensor in found and tensor in wanted and len(found[tensor]) == len(wanted[tensor]):
                    count = _solve(value, step, now[tensor], found[tensor], wanted[tensor])
                else:
                    count = None
                if count is not None and count > 0 and count != self[number] and count not in seen:
                    seen.add(count)
                    yield count
            return

    def built(self, network: nn.Module) -> Any:
        """A model of the configuration with a network's weights, and with the epsilons of its norms."""
        _adopt_epsilons(self.model(), network, self.config)
        first = next(network.parameters())
        model = self.model().to(device=first.device, dtype=first.dtype)
        model.load_state_dict(network.state_dict())
        return model

    def change(self, network: nn.Module, inputs: Inputs) -> float:
        """How far outputs of a model of the configuration with a network's weights are from the network's own."""
        return largest_change(outputs(network, inputs), outputs(self.built(network), inputs))


def fitted(network: nn.Module, inputs: Inputs) -> tuple[Configured | None, str]:
    """The configuration of a network as it is now, which gives its sizes and its outputs; or why there is none."""
    with torch.random.fork_rng(devices=[]):  # a model draws its first weights, which nobody else should notice
        return _fitted(network, inputs)


def _fitted(network: nn.Module, inputs: Inputs) -> tuple[Configured | None, str]:
    first, wanted = Configured(network), shapes_of(network)
    problem = ""
    for found, shapes in _fits(first, wanted):
        if wrong := different(shapes, wanted):
            problem = problem or _misfit(found, shapes, wanted, wrong[0])
            continue
        change = found.change(network, inputs)
        if change <= SINGLE_TOLERANCE:
            return found, ""
        for other in _in_proportion(first, found):
            if other.shapes() == wanted and other.change(network, inputs) <= SINGLE_TOLERANCE:
                return other, ""
        name = type(network).__name__
        problem = problem or f"a {name} with its sizes and weights gives outputs that differ by {change:.1e}"
    return None, problem


def _fits(first: Configured, wanted: Shapes) -> Iterator[tuple[Configured, Shapes]]:
    """What fits the shapes, or nearly so, and what does if a number is held that changed for it.

    More heads and wider ones give some tensors the same shape: the wrong number may have changed.
    """
    found = first.with_numbers({})
    yield found, found.fit(wanted)
    for number in [number for number in first.numbers() if first[number] != found[number]]:
        other = first.with_numbers({})
        yield other, other.fit(wanted, held=number)


def _misfit(found: Configured, shapes: Shapes, wanted: Shapes, name: str) -> str:
    """Why a configuration is not that of a network, by a tensor that differs."""
    has = list(wanted[name]) if name in wanted else "not there"
    gives = list(shapes[name]) if name in shapes else "none"
    why = f" ({found.refused})" if found.refused else ""
    return (
        f"{name} is {has}, and the sizes of {type(found.config).__name__} that fit the rest give {gives}: it has one "
        f"number for all layers{why}"
    )


def _in_proportion(first: Configured, found: Configured) -> Iterator[Configured]:
    """Numbers that shapes do not tell, such as that of the heads, changed as one that they told."""
    for told in first.numbers():
        old, new = first[told], found[told]
        for number in first.numbers():
            value = first[number]
            if old and new and old != new and value and value == found[number] and not value * new % old:
                yield found.with_numbers({number: value * new // old})


def _solve(value: int, step: int, now: tuple[int, ...], found: tuple[int, ...], wanted: tuple[int, ...]) -> int | None:
    """What a number must be for one dimension that depends on it to be as wanted, where it is not."""
    for is_now, other, goal in zip(now, found, wanted, strict=True):
        slope = (other - is_now) / step
        if slope and goal != is_now and ((goal - is_now) / slope).is_integer():
            return value + int((goal - is_now) / slope)
    return None


def _count(tensor: str, wanted: Shapes) -> int | None:
    """How many blocks there are in the list that a tensor of a new block would be in."""
    for match in re.finditer(r"\.(\d+)\.", tensor):
        start, end = tensor[: match.start() + 1], tensor[match.end() - 1 :]
        numbers = {int(n[len(start) : -len(end)]) for n in wanted if n.startswith(start) and n.endswith(end)
                   and n[len(start) : -len(end)].isdigit()}  # fmt: skip
        if numbers and int(match.group(1)) > 0:
            return max(numbers) + 1
    return None


def _adopt_epsilons(model: nn.Module, network: nn.Module, config: Any) -> None:
    """Give a configuration the epsilon of the grown norms, where all that have the model's now have the same one."""
    modules = dict(model.named_modules())
    apart: dict[float, set[float]] = {}
    for name, module in network.named_modules():
        for key, value in vars(module).items():
            if "eps" in key and isinstance(value, float):
                apart.setdefault(vars(modules[name]).get(key, value), set()).add(value)
    for name, value in list(vars(config).items()):
        if "eps" in name and isinstance(value, float) and len(apart.get(value, ())) == 1:
            setattr(config, name, next(iter(apart[value])))
