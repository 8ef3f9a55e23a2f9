"""Making a strategy from its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ramet.errors import ConfigError
from ramet.searching.strategies.base import Strategy
from ramet.searching.strategies.enas import EnasController
from ramet.searching.strategies.evolution import Evolution
from ramet.searching.strategies.nao import Nao
from ramet.searching.strategies.uniform import RandomSearch
from ramet.spaces import Space

STRATEGIES: Mapping[str, type[Strategy]] = {
    "random": RandomSearch,
    "evolution": Evolution,
    "enas": EnasController,
    "nao": Nao,
}
"""The strategies by the names that the command line gives them."""


def make_strategy(name: str, space: Space, *, seed: int = 0, **options: Any) -> Strategy:
    """A strategy by its name.

    Raises:
        ConfigError: if there is no such strategy, or it does not take the options.

    Example:
        >>> from ramet.spaces import Cells64
        >>> len(make_strategy("evolution", Cells64(), population_size=10).propose(3))
        3
    """
    if name not in STRATEGIES:
        raise ConfigError(f"a strategy is one of {', '.join(STRATEGIES)}, but got {name!r}.")
    try:
        return STRATEGIES[name](space, seed=seed, **options)
    except TypeError as error:
        raise ConfigError(f"the strategy {name!r} must get the options it knows, but: {error}.") from None
