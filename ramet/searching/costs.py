"""What an architecture costs, and a strategy that stays within a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ramet.costs import count_flops, count_parameters, measure_latency
from ramet.errors import ConfigError
from ramet.exporting.onnx import export_onnx, onnx_latency
from ramet.registry import parse_options, quantity
from ramet.searching.strategies.base import Strategy
from ramet.seeding import seeded_globally
from ramet.spaces import Arch, Space
from ramet.spaces.extremes import find_cheapest

MEASURED = ("latency", "onnx_latency")
COSTS = ("params", "flops", *MEASURED)


def parse_limits(text: str) -> dict[str, float]:
    """Limits in words; a ``ConfigError`` for an unknown cost, or a limit that is no positive number with a known unit.

    >>> parse_limits("params=200k,latency=5ms")
    {'params': 200000.0, 'latency': 0.005}
    """
    rule = "a budget reads params=200k, flops=10M, latency=5ms or onnx-latency=5ms, joined by commas"
    try:
        limits = {name: quantity(amount) for name, amount in parse_options(text).items()}
    except ConfigError as error:
        raise ConfigError(f"{rule}, but: {error}") from None
    if not limits or any(name not in COSTS or not limit > 0 for name, limit in limits.items()):
        raise ConfigError(f"{rule}, but got {text!r}.")
    return limits


class ArchCosts:
    """Parameters, multiply-adds and measured latency of the architectures of a space, each counted once."""

    def __init__(self, space: Space, input_shape: Sequence[int], num_classes: int) -> None:
        self.space = space
        self.input_shape = tuple(input_shape)
        self.dtype = torch.int64 if space.takes_text else torch.float32
        with seeded_globally(0, "costs"):
            self._network = space.supernet(self.input_shape[0], num_classes)
        self.known: dict[tuple[str, Arch], float] = {}

    def __call__(self, cost: str, arch: Arch) -> float:
        """One cost of one architecture: values, multiply-adds, or seconds."""
        if (cost, arch) not in self.known:
            if cost == "params":
                value = float(self._count_parameters(arch))
            elif cost == "flops":
                value = float(count_flops(self._network, self.input_shape, arch, dtype=self.dtype))
            elif cost == "latency":
                value = measure_latency(self._network, self.input_shape, arch, dtype=self.dtype)
            else:
                exported = export_onnx(self._network.child(arch), self.input_shape, self.dtype)
                value = onnx_latency(exported, self.input_shape)
            self.known[cost, arch] = value
        return self.known[cost, arch]

    def _count_parameters(self, arch: Arch) -> int:
        """The parameters of a child: of all layers that its forward pass calls, which is quicker than an export.

        A user's own module may use a layer's weights without calling it, so that there the child is counted.
        """
        if not self.space.calls_its_weights:
            return count_parameters(self._network.child(arch))
        sizes: dict[int, int] = {}

        def note(module: nn.Module, inputs: object) -> None:
            sizes.update({id(param): param.numel() for param in module.parameters(recurse=False)})

        layers = [module for module in self._network.modules() if any(True for _ in module.parameters(recurse=False))]
        hooks = [layer.register_forward_pre_hook(note) for layer in layers]
        try:
            count_flops(self._network, self.input_shape, arch, dtype=self.dtype)
        finally:
            for hook in hooks:
                hook.remove()
        return sum(sizes.values())


class Budgeted(Strategy):
    """A strategy that proposes only architectures within limits.

    A proposal that costs too much is drawn again, ``redraws`` times at most; then its decisions are turned, one by one,
    into those of the cheapest architecture until it fits. The wrapped strategy learns from what was really looked at.
    Costs are called as ``costs(name, arch)``; ``ArchCosts`` counts, and a table is a function too.
    """

    def __init__(
        self, strategy: Strategy, costs: Callable[[str, Arch], float], limits: Mapping[str, float], *, redraws: int = 4
    ) -> None:
        super().__init__(strategy.space)
        self.inner, self.costs, self.limits, self.redraws = strategy, costs, dict(limits), redraws
        self._refuge = self._find_refuge()

    def _find_refuge(self) -> Arch:
        """An architecture within all limits: the cheapest in the worst ratio of cost to limit."""
        refuge = find_cheapest(self.space, self._ratio)
        if self._ratio(refuge) > 1:
            worst = max(self.limits, key=lambda name: self.costs(name, refuge) / self.limits[name])
            raise ConfigError(
                f"a budget must leave at least one architecture, but the cheapest found has {worst} "
                f"{self.costs(worst, refuge):g} and the limit is {self.limits[worst]:g}."
            )
        return refuge

    def _ratio(self, arch: Arch) -> float:
        return max(self.costs(name, arch) / limit for name, limit in self.limits.items())

    def fits(self, arch: Arch) -> bool:
        """Whether an architecture is within all limits."""
        return self._ratio(arch) <= 1

    def draw(self, n: int) -> list[Arch]:
        """Proposals of the wrapped strategy that fit, or were made to fit."""
        archs = self.inner.propose(n)
        for _ in range(self.redraws):
            over = [place for place, arch in enumerate(archs) if not self.fits(arch)]
            if not over:
                break
            for place, arch in zip(over, self.inner.propose(len(over)), strict=True):
                archs[place] = arch
        return [self._repaired(arch) for arch in archs]

    def _repaired(self, arch: Arch) -> Arch:
        for place in range(len(arch)):
            if self.fits(arch):
                break
            arch = (*arch[:place], self._refuge[place], *arch[place + 1 :])
        return arch

    def learn(self, archs: list[Arch], rewards: list[float]) -> None:
        """Handed on."""
        self.inner.observe(archs, rewards)

    def derive(self, n: int) -> list[Arch]:
        """What the wrapped strategy would end with, as far as it fits."""
        return list(dict.fromkeys(self._repaired(arch) for arch in self.inner.derive(n)))

    def report(self) -> dict[str, float]:
        """The wrapped strategy's figures."""
        return self.inner.report()

    def state(self) -> dict[str, Any]:
        """The wrapped strategy's state, and costs that were measured: a latency is not measured the same twice."""
        known = getattr(self.costs, "known", {})
        measured = {
            cost: [[list(arch), value] for (name, arch), value in known.items() if name == cost] for cost in MEASURED
        }
        return {"inner": self.inner.state(), **measured, "refuge": list(self._refuge)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.inner.load_state(state["inner"])
        self._refuge = tuple(state["refuge"])
        if isinstance(self.costs, ArchCosts):
            for cost in MEASURED:
                self.costs.known.update({(cost, tuple(arch)): value for arch, value in state.get(cost, [])})


def pareto_front(costs: Sequence[float], rewards: Sequence[float]) -> list[int]:
    """The places of the pairs that no other beats in both, the cheapest first.

    A pair is beaten by one that costs no more and is rewarded no less, and is better in one of the two. Of equal pairs
    the first stays.

    >>> pareto_front([3, 1, 2, 4], [0.9, 0.5, 0.4, 0.9])
    [1, 0]
    """
    order = sorted(range(len(costs)), key=lambda place: (costs[place], -rewards[place], place))
    front: list[int] = []
    for place in order:
        if not front or rewards[place] > rewards[front[-1]]:
            front.append(place)
    return front
