"""Suggestions of a trial that was interrupted while they were being drawn: drawn again, to the same values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ramet.continual.study_storage import import_optuna


class Replayed:
    """An Optuna trial whose stored suggestions move its sampler on as if they were drawn now.

    Optuna gives a suggestion that was stored before without asking the sampler, whose generator then stands elsewhere
    for the next. Here it is asked all the same, so that the rest comes out as it would have without the interruption.

    Args:
        trial: the trial; its study's sampler is the one that it began with, made anew.
    """

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self._stored = set(trial.params)

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
        is_free = name in self._stored and not distribution.single()
        if is_free and name not in trial.relative_params:
            frozen = trial.study._storage.get_trial(trial._trial_id)
            trial.study.sampler.sample_independent(trial.study, frozen, name, distribution)
