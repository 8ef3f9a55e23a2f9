"""A conformance suite for strategies: what the search loop relies on.

For authors of a strategy of their own, with pytest:

    @pytest.mark.parametrize("check", STRATEGY_CHECKS, ids=lambda check: check.__name__)
    def test_my_strategy(check):
        check(lambda space, seed: MyStrategy(space, seed=seed))

Each check raises an ``AssertionError`` that says what is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.runs import pack_state, unpack_state
from ramet.searching.strategies import Strategy
from ramet.spaces import Arch, Space, Supernet

MakeStrategy = Callable[[Space, int], Strategy]
"""Makes a fresh strategy: ``make(space, seed)``."""


class Digits(Space):
    """A space of bare tuples, of which some decisions have a single option; it has no networks."""

    def supernet(self, in_channels: int, num_classes: int) -> Supernet:
        """Not there."""
        raise NotImplementedError

    def name(self, arch: Arch) -> str:
        """The numbers, joined by commas."""
        return ",".join(map(str, self.check(arch)))

    def parse(self, text: str) -> Arch:
        """The inverse of ``name``."""
        return self.check(tuple(int(part) for part in text.split(",")))

    def describe(self) -> dict[str, Any]:
        """The numbers of options."""
        return {"kind": "ramet.testing.strategies:Digits", "num_options": list(self.num_options)}


SPACE = Digits([3, 1, 4, 2, 5])


def reward_of(arch: Arch) -> float:
    """A smooth reward with a unique best architecture, the one of the last options."""
    return (
        sum(choice / (options - 1) for choice, options in zip(arch, SPACE.num_options, strict=True) if options > 1) / 4
    )


def run(strategy: Strategy, rounds: int, n: int = 5) -> list[Arch]:
    """Propose and observe in turns; gives all proposals."""
    proposed = []
    for _ in range(rounds):
        archs = strategy.propose(n)
        strategy.observe(archs, [reward_of(arch) for arch in archs])
        proposed += archs
    return proposed


def check_proposals(make: MakeStrategy) -> None:
    """As many as asked for, all of the space, before and after observations."""
    strategy = make(SPACE, 0)
    for n in (1, 2, 7):
        archs = strategy.propose(n)
        assert len(archs) == n, f"asked for {n} architectures, got {len(archs)}"
        assert all(arch in SPACE for arch in archs), f"an architecture of another space among {archs}"
        strategy.observe(archs, [reward_of(arch) for arch in archs])
    derived = strategy.derive(3)
    assert 1 <= len(derived) <= 3 and len(set(derived)) == len(derived), f"derive(3) gave {derived}"
    assert all(arch in SPACE for arch in derived), f"derive gave an architecture of another space: {derived}"


def check_seeds(make: MakeStrategy) -> None:
    """One seed gives the same proposals again, another seed gives others; the global generator is left alone."""
    before = torch.random.get_rng_state()
    first, again, other = (run(make(SPACE, seed), 8) for seed in (0, 0, 1))
    assert first == again, "the same seed must give the same proposals"
    assert first != other, "another seed must give other proposals"
    assert torch.equal(before, torch.random.get_rng_state()), "a strategy must not draw from the global generator"


def check_state(make: MakeStrategy) -> None:
    """A strategy that goes on from its state proposes what it would have proposed, and the state is its own."""
    strategy = make(SPACE, 0)
    run(strategy, 6)
    tensors, packed = pack_state(strategy.state())
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    expected = run(strategy, 6)
    again = make(SPACE, 1)
    run(again, 2)
    again.load_state(unpack_state(tensors, packed))
    assert run(again, 6) == expected, "a restored strategy must go on as if it had never stopped"
    for name, tensor in tensors.items():
        assert torch.equal(tensor, kept[name]), f"going on must not change the state that was loaded: {name}"


def check_bad_input(make: MakeStrategy) -> None:
    """NaN rewards, foreign architectures, too few rewards, no proposals and a space of one are refused, in one line."""
    strategy = make(SPACE, 0)
    arch = strategy.propose(1)[0]
    actions: dict[str, Callable[[], object]] = {
        "a NaN reward": lambda: strategy.observe([arch], [float("nan")]),
        "an infinite reward": lambda: strategy.observe([arch], [float("inf")]),
        "a foreign architecture": lambda: strategy.observe([(9, 9, 9, 9, 9)], [0.5]),
        "too few rewards": lambda: strategy.observe([arch], []),
        "no proposals": lambda: strategy.propose(0),
        "a space of one architecture": lambda: make(Digits([1, 1]), 0),
    }
    for what, action in actions.items():
        try:
            action()
        except ConfigError as error:
            assert "\n" not in str(error), f"{what} must be refused in one line"
            continue
        raise AssertionError(f"{what} was not refused with a ConfigError")
    strategy.observe([], [])
    assert strategy.propose(1)[0] in SPACE, "a strategy must go on after bad input"


def check_small_space(make: MakeStrategy) -> None:
    """Two architectures are enough, also when all of them are known."""
    space = Digits([2])
    strategy = make(space, 0)
    for _ in range(10):
        archs = strategy.propose(4)
        assert all(arch in space for arch in archs)
        strategy.observe(archs, [float(arch[0]) for arch in archs])


def check_constant_rewards(make: MakeStrategy) -> None:
    """Equal rewards, and very large and very small ones, never make a NaN."""
    for value in (0.0, 1e-30, 1e12):
        strategy = make(SPACE, 0)
        for _ in range(6):
            archs = strategy.propose(4)
            strategy.observe(archs, [value] * 4)
        assert all(figure == figure for figure in strategy.report().values()), f"a figure is NaN at rewards of {value}"
        for module in vars(strategy).values():
            if isinstance(module, nn.Module):
                finite = all(bool(torch.isfinite(tensor).all()) for tensor in _floats(module))
                assert finite, f"rewards of {value} made a weight that is not finite"


def check_it_learns(make: MakeStrategy) -> None:
    """Late proposals are better than early ones, on average over seeds (not for random search)."""
    early, late = [], []
    for seed in range(3):
        proposed = run(make(SPACE, seed), 80)
        early += [reward_of(arch) for arch in proposed[:50]]
        late += [reward_of(arch) for arch in proposed[-50:]]
    gain = sum(late) / len(late) - sum(early) / len(early)
    assert gain > 0.05, f"late proposals are better by {gain:.3f} only"


def _floats(module: nn.Module) -> list[Tensor]:
    return [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]


STRATEGY_CHECKS: tuple[Callable[[MakeStrategy], None], ...] = tuple(
    check for name, check in globals().items() if name.startswith("check_")
)
"""Every check; ``check_it_learns`` is the only one that random search fails."""
