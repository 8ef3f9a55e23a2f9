"""One choice for each of several items, worth most in sum for what they cost, at every budget at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Option = TypeVar("Option", bound=Hashable)
_CELLS = 1000


class Knapsack(Generic[Option]):
    """The best choices at each of a thousand budgets, from what options are worth, by dynamic programming.

    Exact, but that costs are rounded up to a thousandth of what the dearest choices cost more than the cheapest.

    Attributes:
        budgets: from the least that must be spent to all that can be.
        worth: of the best choices at each budget.

    >>> values = {"a": {"small": 1.0, "large": 3.0}, "b": {"small": 2.0, "large": 7.0}}
    >>> costs = {"a": {"small": 10.0, "large": 20.0}, "b": {"small": 10.0, "large": 40.0}}
    >>> Knapsack(values, costs).best(50.0)
    {'a': 'small', 'b': 'large'}
    """

    def __init__(
        self, values: Mapping[str, Mapping[Option, float]], costs: Mapping[str, Mapping[Option, float]]
    ) -> None:
        least = {item: min(costs[item][option] for option in options) for item, options in values.items()}
        most = {item: max(costs[item][option] for option in options) for item, options in values.items()}
        unit = max(sum(most.values()) - sum(least.values()), 1e-12) / _CELLS
        self.budgets: NDArray[np.float64] = sum(least.values()) + unit * np.arange(_CELLS + 1, dtype=np.float64)
        self.worth: NDArray[np.float64] = np.zeros(_CELLS + 1)
        self._steps: list[tuple[str, list[Option], list[int], NDArray[np.int64]]] = []
        for item, options in values.items():
            prices = [int(np.ceil((costs[item][option] - least[item]) / unit - 1e-6)) for option in options]
            table = np.full((len(options), _CELLS + 1), -np.inf)
            for row, price, value in zip(table, prices, options.values(), strict=True):
                row[price:] = self.worth[: _CELLS + 1 - price] + value
            self._steps.append((item, list(options), prices, table.argmax(0)))
            self.worth = table.max(0)

    def best(self, budget: float) -> dict[str, Option]:
        """The choice for each item, of those that cost no more in sum; the cheapest of all if none does."""
        left = max(0, int(np.searchsorted(self.budgets, budget * (1 + 1e-12), side="right")) - 1)
        chosen = {}
        for item, options, prices, picks in reversed(self._steps):
            pick = int(picks[left])
            chosen[item] = options[pick]
            left -= prices[pick]
        return dict(reversed(chosen.items()))
