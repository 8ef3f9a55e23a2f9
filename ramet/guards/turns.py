"""How long a model's turn lasts, and the guards for which one mini-batch is no turn.

A penalty that holds weights where the model trained last left them has nothing to hold in that model's successor's
first step: the weights are there. If every turn is one mini-batch, they are there in every step, and the guard does
nothing.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ramet.errors import ConfigError

if TYPE_CHECKING:
    from ramet.guards.base import Guard


class VoidGuardWarning(UserWarning):
    """A guard is driven in a way in which it cannot act."""


def check_turn(guard: Guard, num_batches: int) -> None:
    """Refuse a guard that cannot act in turns of so many mini-batches.

    Raises:
        ConfigError: says what would act.
    """
    if num_batches < guard.least_turn:
        raise ConfigError(
            f"{guard.what_is_void}: a model's turn must last at least {guard.least_turn} mini-batches, but got "
            f"{num_batches}; give --batches-per-model 7, or a guard that holds the mean of all models, such as "
            "plasticity:towards=mean or elastic."
        )


class Turns:
    """Counts the steps between two calls of ``remember``, and warns, once, when every turn is a single one."""

    def __init__(self) -> None:
        self._num_steps, self._num_single, self._has_warned = 0, 0, False

    def step(self) -> None:
        """A step was taken."""
        self._num_steps += 1

    def finish(self, guard: Guard) -> None:
        """A model is finished."""
        self._num_single = self._num_single + 1 if self._num_steps == 1 else 0
        self._num_steps = 0
        if self._num_single == 3 and guard.least_turn > 1 and not self._has_warned:  # the first may be anything
            self._has_warned = True
            text = f"{guard.what_is_void}: remember was called after every single step, and so this guard does nothing."
            warnings.warn(text, VoidGuardWarning, stacklevel=3)
