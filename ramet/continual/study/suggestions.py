"""Suggestions that are drawn again to the same values, for a trial that was interrupted while they were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ramet.continual.study.storage import import_optuna

_GP_DRAW = "gp:relative_params:0"
"""Where Optuna's Gaussian process keeps what it has drawn for a running trial."""


class Replayed:
    """An Optuna trial whose stored suggestions move its sampler on as if they were drawn now.

    Optuna gives a suggestion that was stored before without asking the sampler, whose generator then stands elsewhere
    for the next. Here it is asked all the same, so that the rest comes out as it would have without the interruption.
    The sampler of the trial's study must be the one that it began with, made anew.
    """

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self._stored = set(trial.params)
        storage = trial.study._storage
        if _GP_DRAW in storage.get_trial(trial._trial_id).system_attrs:
            # Or a Gaussian process would take its own draw for that of another running trial.
            storage.set_trial_system_attr(trial._trial_id, _GP_DRAW, "")
        # Asked for even where all suggestions are given: by it NSGA-II counts a trial into its generation.
        self._relative = trial.relative_params

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None) -> float:
        """A number of a range."""
        self._draw(name, import_optuna().distributions.FloatDistribution(low, high, step=step))
        return float(self._trial.suggest_float(name, low, high, step=step))

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> str:
        """One of several."""
        self._draw(name, import_optuna().distributions.CategoricalDistribution(choices))
        return str(self._trial.suggest_categorical(name, choices))

    def _draw(self, name: str, distribution: Any) -> None:
        trial = self._trial
        is_free = name in self._stored and name not in trial._fixed_params and not distribution.single()
        if is_free and name not in self._relative:
            frozen = trial.study._storage.get_trial(trial._trial_id)
            trial.study.sampler.sample_independent(trial.study, frozen, name, distribution)


def make_nsga2(population_size: int, seed: int) -> Any:
    """NSGA-II whose parents have one order, whether they are chosen now or were chosen before.

    Optuna gives parents in the order of their rank when it chooses them, and afterwards, from its storage, in that of
    their numbers. Children are drawn by place, so that one that is drawn again would have other parents.
    """
    optuna = import_optuna()

    class InOrder(optuna.samplers.NSGAIISampler):  # type: ignore[misc, name-defined]
        def select_parent(self, study: Any, generation: int) -> list[Any]:
            return sorted(super().select_parent(study, generation), key=lambda trial: trial.number)

    return InOrder(population_size=population_size, seed=seed)
