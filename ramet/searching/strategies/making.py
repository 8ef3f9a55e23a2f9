"""A strategy from words, from a file, or from an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ramet.errors import ConfigError
from ramet.registry import Spec
from ramet.searching.strategies import STRATEGIES
from ramet.searching.strategies.base import Strategy
from ramet.spaces import Space

StrategySource = str | Spec | Mapping[str, Any] | Strategy | Callable[..., Strategy]
"""What names a strategy: a text, a strategy, or a class or function that is called as ``make(space, seed=seed)``."""


def make_strategy(
    source: StrategySource, space: Space, *, seed: int = 0, trusted: bool = True, **options: Any
) -> Strategy:
    """A strategy for a space.

    Args:
        source: ``NAME``, ``NAME:key=value,...``, ``FILE.py:Class`` for one's own, a class or function that makes one,
            or a strategy, which is used as it is: what it has learnt, it keeps.
        space: the architectures.
        seed: of all draws.
        trusted: whether code that the text names may run.
        options: further options of the strategy.

    Raises:
        ConfigError: if there is no such strategy, it does not take the options, or it is of another space.

    Example:
        >>> from ramet.spaces import Cells64
        >>> len(make_strategy("evolution:population_size=10", Cells64()).propose(3))
        3
    """
    if isinstance(source, str):
        source = STRATEGIES.parse(source)
    if isinstance(source, Spec):
        source = source.with_options(options)
    elif options:
        raise ConfigError(f"options are for a strategy by name, but got {', '.join(options)} beside an object.")
    strategy = STRATEGIES.make(source, space, seed=seed, trusted=trusted)
    if strategy.space.num_options != space.num_options:
        raise ConfigError(
            f"a strategy must be of the space that is searched, of {space.num_archs} architectures, "
            f"but its own has {strategy.space.num_archs}."
        )
    return strategy
