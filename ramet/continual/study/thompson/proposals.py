"""The next grow sequence to try: the best of some size, if one draw of what is believed of the tasks were true."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ramet.continual.study.space import SequenceSpace
from ramet.continual.study.thompson.task_effects import Belief, Finished, Layers, TaskEffects

Parameters = Mapping[str, float | str]
Option = TypeVar("Option", bound=Hashable)
_ATTEMPTS, _CELLS = 20, 1000


@dataclass(frozen=True)
class Seen:
    """A finished trial: for each task the layers it made anew, its gain on validation data, the parameters it added."""

    parameters: Parameters
    layers: Mapping[str, Layers]
    gains: Mapping[str, float]
    added: Mapping[str, int]

    @classmethod
    def of(cls, trials: Sequence[Any]) -> list[Seen]:
        """The finished ones of a study's trials."""
        finished = [trial for trial in trials if trial.values is not None and "gains" in trial.user_attrs]
        return [
            cls(
                trial.params,
                {task: tuple(sorted(places)) for task, places in trial.user_attrs["expanded"].items()},
                trial.user_attrs["gains"],
                trial.user_attrs["added"],
            )
            for trial in finished
        ]

    @property
    def rest(self) -> tuple[tuple[str, float | str], ...]:
        """The parameters that are no coefficients: the order and the bindings, where they are free."""
        return tuple(sorted(_without_coefficients(self.parameters).items()))

    @property
    def gain(self) -> float:
        """The sum over tasks."""
        return sum(self.gains.values())

    @property
    def size(self) -> int:
        """The parameters of all tasks but a founder."""
        return sum(self.added[task] for task in self.layers)


def propose(
    space: SequenceSpace,
    tasks: Sequence[str],
    seen: Sequence[Seen],
    generator: np.random.Generator,
    base: str | None = None,
) -> dict[str, float | str]:
    """The parameters of the next trial, by Thompson sampling, for a space with a coefficient for each task.

    A belief is drawn from all that the finished trials allow (``TaskEffects``), and a size at which it promises more
    than was found; the sequence is the best of at most that size by the belief. One that was tried before is drawn
    again. One parameter in a trial or so is left to chance, or coefficients that were never tried would never be. If no
    trial is finished, the sequence is random. With a ``base``, as of ``SequenceSpace``, no task is the founder.
    """
    if not seen:
        return _completed({}, space, tasks, generator, base)
    effects = TaskEffects([Finished(trial.layers, trial.gains, trial.rest) for trial in seen], tasks)
    for _ in range(_ATTEMPTS):
        belief = effects.draw(generator)
        kept, promise = _best_rest(belief, generator)
        parameters = _completed(kept, space, tasks, generator, base)
        first = space.suggest(_Given(parameters, generator), tasks, base).order[0]
        founder = first if base is None else None
        knapsack = _knapsack(belief, seen, founder)
        layers = knapsack.best(_budget(knapsack, belief.base + promise, seen, generator))
        deltas = {f"delta/{task}": _coefficient(seen, task, some, generator) for task, some in layers.items()}
        parameters |= _left_to_chance(deltas, generator)
        if not _was_tried(parameters, list(layers), seen):
            break
    return parameters


def _best_rest(belief: Belief, generator: np.random.Generator) -> tuple[dict[str, float | str], float]:
    """The order and bindings that are best by a belief, and what they promise; if others are better, these in part."""
    rests: Mapping[Any, float] = belief.rest
    best = max(rests, key=lambda rest: rests[rest])
    if not best or belief.untried <= rests[best]:
        return dict(best), rests[best]
    return (_left_to_chance(dict(best), generator) if generator.random() < 0.5 else {}), belief.untried


def _knapsack(belief: Belief, seen: Sequence[Seen], founder: str | None) -> Knapsack[Layers]:
    """The best layers at any size; those of the founder are all its own."""
    added: dict[tuple[str, Layers], list[int]] = {}
    for trial in seen:
        for task, layers in trial.layers.items():
            added.setdefault((task, layers), []).append(trial.added[task])
    values: dict[str, dict[Layers, float]] = {}
    costs: dict[str, dict[Layers, float]] = {}
    for (task, layers), value in belief.layers.items():
        if task != founder:
            values.setdefault(task, {})[layers] = value
            costs.setdefault(task, {})[layers] = float(np.mean(added[task, layers]))
    return Knapsack(values, costs)


def _budget(knapsack: Knapsack[Layers], offset: float, seen: Sequence[Seen], generator: np.random.Generator) -> float:
    """A size, drawn from those at which more is promised than was found; half of the time one that was found."""
    sizes, gains = np.array([trial.size for trial in seen]), np.array([trial.gain for trial in seen])
    found = np.where(sizes <= knapsack.budgets[:, None], gains, -np.inf).max(1)
    promising = np.flatnonzero(knapsack.worth + offset > found)
    if not len(promising):
        return float(generator.choice(knapsack.budgets))
    place = int(generator.choice(promising))
    if generator.random() < 0.5:
        # The smallest of those sizes at which no more was found: what keeps the promise there dominates that.
        place = int(promising[found[promising] == found[place]][0])
    return float(knapsack.budgets[place])


def _coefficient(seen: Sequence[Seen], task: str, layers: Layers, generator: np.random.Generator) -> float | str:
    """A coefficient that gave a task these layers."""
    gave = [trial.parameters[f"delta/{task}"] for trial in seen if trial.layers.get(task) == layers]
    return gave[generator.integers(len(gave))]


def _was_tried(parameters: Parameters, tasks: Sequence[str], seen: Sequence[Seen]) -> bool:
    """Whether the tasks would get what they got together before, as far as one can know."""
    layers = {task: _foreseen(task, float(parameters[f"delta/{task}"]), seen) for task in tasks}
    rest = _without_coefficients(parameters)
    return any(trial.layers == layers and dict(trial.rest) == rest for trial in seen)


def _foreseen(task: str, delta: float, seen: Sequence[Seen]) -> Layers | None:
    """The layers that a coefficient will give a task, if those around it always gave the same."""
    gave: dict[float, set[Layers]] = {}
    for trial in seen:
        if task in trial.layers:
            gave.setdefault(float(trial.parameters[f"delta/{task}"]), set()).add(trial.layers[task])
    below, above = [one for one in gave if one <= delta], [one for one in gave if one >= delta]
    around = gave[max(below)] | gave[min(above)] if below and above else set()
    return next(iter(around)) if len(around) == 1 else None


def _without_coefficients(parameters: Parameters) -> dict[str, float | str]:
    return {name: value for name, value in parameters.items() if not name.startswith("delta/")}


def _left_to_chance(parameters: Parameters, generator: np.random.Generator) -> dict[str, float | str]:
    """The parameters without one or so of them."""
    share = min(0.5, 1 / max(1, len(parameters)))
    return {name: value for name, value in parameters.items() if generator.random() >= share}


def _completed(
    parameters: Parameters,
    space: SequenceSpace,
    tasks: Sequence[str],
    generator: np.random.Generator,
    base: str | None,
) -> dict[str, float | str]:
    """All parameters of a space, those that are not given being random."""
    trial = _Given(parameters, generator)
    space.suggest(trial, tasks, base)
    return trial.parameters


class _Given:
    """A trial whose parameters are given, or else random."""

    def __init__(self, given: Parameters, generator: np.random.Generator) -> None:
        self._given = given
        self._generator = generator
        self.parameters: dict[str, float | str] = {}

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None) -> float:
        """A number of a range."""
        value = self._given.get(name)
        if value is None:
            value = float(self._generator.uniform(low, high))
            if step is not None:
                value = low + step * int(self._generator.integers(int((high - low) / step + 1e-9) + 1))
        self.parameters[name] = float(value)
        return float(value)

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> str:
        """One of several."""
        value = self._given.get(name)
        if value is None:
            value = choices[int(self._generator.integers(len(choices)))]
        self.parameters[name] = value
        return str(value)


class Knapsack(Generic[Option]):
    """The best choices at each of a thousand budgets, from what options are worth, by dynamic programming.

    Exact, but that costs are rounded up to a thousandth of what the dearest choices cost more than the cheapest.

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
