"""What each task gains by each set of new layers, learned from whole sequences: one Bayesian linear regression."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Layers = tuple[int, ...]
"""The places of the layers that a task has made anew."""

_ROUNDS = 60
_BROAD, _LEAST = 1e4, 1e-9


@dataclass(frozen=True)
class Finished:
    """A sequence that was learned; the founding task has no ``layers``, ``rest`` is the order and the bindings."""

    layers: Mapping[str, Layers]
    gains: Mapping[str, float]
    rest: Hashable = ()


@dataclass(frozen=True)
class Belief:
    """One belief of what choices do to the sum of all tasks' gains.

    Attributes:
        base: the sum without any effect of choices.
        layers: by task and its new layers.
        rest: by order and bindings, of those that were tried.
        untried: an order and bindings that were not.
    """

    base: float
    layers: Mapping[tuple[str, Layers], float]
    rest: Mapping[Hashable, float]
    untried: float


class TaskEffects:
    """What finished sequences tell of the effect that each choice has on the sum of all tasks' gains.

    The gain of task s in a sequence is taken to be mu_s + pi_(a_s) + theta_(s, a_s) + noise, plus the mean over the
    other tasks t of phi_(t, a_t), plus omega_r / T, where a_t are the new layers of task t and r the order and the
    bindings: what such layers give to any task, what they give to this one, what they do to all others, whose layers it
    would otherwise train further, and what the order does. Each of the four has a normal prior whose variance is fitted
    to the data, as is that of the noise (expectation maximisation of the marginal likelihood). Sequences are few and
    validation data are noisy; what they cannot tell stays uncertain.

    Attributes:
        choices: all pairs of a task and layers that were tried.
        rests: all orders and bindings that were.
        mean, covariance: of the base, of the effects of the choices and of those of the rests, in this order.
        design, sums: from weights to gains, and from weights to these effects.
        variances, noise: of the weights before anything was seen, and of what the weights do not explain.
    """

    def __init__(self, finished: Sequence[Finished], tasks: Sequence[str]) -> None:
        self.choices = sorted({(task, layers) for trial in finished for task, layers in trial.layers.items()})
        self.rests = list(dict.fromkeys(trial.rest for trial in finished))
        self._tasks = list(tasks)
        self._kinds = sorted({layers for _, layers in self.choices})
        sizes = [len(tasks), len(self._kinds), len(self.choices), len(self.choices), len(self.rests)]
        self._starts = np.cumsum([0, *sizes]).tolist()
        gains = np.array([trial.gains[task] for trial in finished for task in tasks])
        groups = np.repeat(np.arange(len(sizes)), sizes)
        self.design, self.sums = self._design(finished), self._sums()
        mean, covariance, by_group, self.noise = _fit(self.design, groups, gains)
        self.variances: Array = by_group[groups]
        self.mean: Array = self.sums @ mean
        self.covariance: Array = self.sums @ covariance @ self.sums.T

    def draw(self, generator: np.random.Generator) -> Belief:
        """One belief of all those that the data allow."""
        # The covariance has no negative variance but by rounding, which differs among processors: it is not checked.
        values = generator.multivariate_normal(self.mean, self.covariance, method="eigh", check_valid="ignore")
        base, *drawn = values.tolist()
        count = len(self.choices)
        return Belief(
            base,
            dict(zip(self.choices, drawn[:count], strict=True)),
            dict(zip(self.rests, drawn[count:], strict=True)),
            float(generator.normal(0, np.sqrt(self.variances[-1]))),
        )

    def _design(self, finished: Sequence[Finished]) -> Array:
        """A row for each sequence and task; columns of tasks, kinds, own effects, effects on others, and the rest."""
        count = len(self._tasks)
        places = {choice: place for place, choice in enumerate(self.choices)}
        _, kinds, own, others, rests, end = self._starts
        rows = np.zeros((len(finished), count, end))
        for trial, block in zip(finished, rows, strict=True):
            block[:, :count] = np.eye(count)
            block[:, rests + self.rests.index(trial.rest)] = 1 / count
            for row, task in enumerate(self._tasks):
                if task in trial.layers:
                    layers = trial.layers[task]
                    place = places[task, layers]
                    block[:, others + place] = 1 / max(1, count - 1)
                    block[row, others + place] = 0
                    block[row, own + place] = 1
                    block[row, kinds + self._kinds.index(layers)] = 1
        return rows.reshape(-1, end)

    def _sums(self) -> Array:
        """Which weights add up to the base and to the effect of each choice on the sum of all gains."""
        _, kinds, own, others, rests, end = self._starts
        sums = np.zeros((1 + len(self.choices) + len(self.rests), end))
        sums[0, :kinds] = 1
        for place, (_, layers) in enumerate(self.choices):
            sums[1 + place, [kinds + self._kinds.index(layers), own + place, others + place]] = 1
        for place in range(len(self.rests)):
            sums[1 + len(self.choices) + place, rests + place] = 1
        return sums


def _fit(design: Array, groups: NDArray[np.int64], targets: Array) -> tuple[Array, Array, Array, float]:
    """The mean and covariance of the weights, the variance of each group, and that of the noise; group 0 is free."""
    scale = max(float(targets.var()), 1e-12)
    variances = np.full(groups.max() + 1, scale)
    variances[0] *= _BROAD
    noise = scale
    gram, moments = design.T @ design, design.T @ targets

    def posterior() -> tuple[Array, Array]:
        covariance: Array = np.linalg.inv(gram / noise + np.diag(1 / variances[groups])).astype(np.float64)
        return covariance @ moments / noise, covariance

    for _ in range(_ROUNDS):
        mean, covariance = posterior()
        squares = mean**2 + np.diag(covariance)
        for group in range(1, len(variances)):
            variances[group] = max(float(squares[groups == group].mean()), _LEAST * scale)
        missed = float(((targets - design @ mean) ** 2).sum() + np.sum(gram * covariance))
        noise = max(missed / len(targets), _LEAST * scale)
    return *posterior(), variances, noise
