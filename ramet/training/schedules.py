"""The learning rate over a training, by name: functions of the recipe, a step's number and the number of steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ramet.errors import ConfigError

if TYPE_CHECKING:
    from ramet.training.recipe import Recipe


def cosine(recipe: Recipe, step: int, num_steps: int) -> float:
    """Half a cosine from the first learning rate down to the final one."""
    return _between(recipe, (1 + math.cos(math.pi * step / num_steps)) / 2)


def constant(recipe: Recipe, step: int, num_steps: int) -> float:
    """The first learning rate throughout."""
    return recipe.learning_rate


def linear(recipe: Recipe, step: int, num_steps: int) -> float:
    """A line from the first learning rate down to the final one."""
    return _between(recipe, 1 - step / num_steps)


def step(recipe: Recipe, step: int, num_steps: int, factor: float = 0.1, every: float = 1 / 3) -> float:
    """A smaller learning rate after each of several equal parts of the training.

    Args:
        recipe: of the training.
        step: its number.
        num_steps: of the training.
        factor: what the learning rate is multiplied by after each part.
        every: the share of the training that is a part.
    """
    if not (0 < factor <= 1 and 0 < every <= 1):
        raise ConfigError(f"a step schedule has factor and every in (0, 1], but got {factor} and {every}.")
    return recipe.learning_rate * factor ** math.floor(step / (every * num_steps))


def exponential(recipe: Recipe, step: int, num_steps: int, factor: float = 0.96, start: float = 0) -> float:
    """A smaller learning rate after each epoch: how ENAS trains recurrent cells, from its 15th epoch on.

    Args:
        recipe: of the training.
        step: its number.
        num_steps: of the training.
        factor: what the learning rate is multiplied by after each epoch.
        start: the epochs before, in which it stays.
    """
    if not (0 < factor <= 1 and start >= 0):
        raise ConfigError(f"an exponential schedule has factor in (0, 1] and start from 0, but got {factor}, {start}.")
    return recipe.learning_rate * factor ** max(0, math.floor(step * recipe.epochs / num_steps - start))


def one_cycle(recipe: Recipe, step: int, num_steps: int, rise: float = 0.3, start: float = 0.04) -> float:
    """Up to the learning rate by half a cosine, and down to the final one by another (Smith and Topin, 2018).

    Args:
        recipe: of the training.
        step: its number.
        num_steps: of the training.
        rise: the share of the training that it rises.
        start: the share of the learning rate that it starts with.
    """
    if not (0 < rise < 1 and 0 < start <= 1):
        raise ConfigError(f"a one-cycle schedule has rise in (0, 1) and start in (0, 1], but got {rise} and {start}.")
    top = rise * num_steps
    if step < top:
        return recipe.learning_rate * (start + (1 - start) * (1 - math.cos(math.pi * step / top)) / 2)
    return _between(recipe, (1 + math.cos(math.pi * (step - top) / (num_steps - top))) / 2)


def restarts(recipe: Recipe, step: int, num_steps: int, first: float = 10, longer: float = 2) -> float:
    """A cosine that starts anew, each time longer: ENAS' own (Loshchilov and Hutter, 2017).

    Args:
        recipe: of the training.
        step: its number.
        num_steps: of the training.
        first: epochs of the first cosine; 10 in ENAS.
        longer: how much longer each is than the one before; 2 in ENAS.
    """
    if not (first > 0 and longer >= 1):
        raise ConfigError(f"restarts have first above 0 and longer of at least 1, but got {first} and {longer}.")
    length = first * num_steps / recipe.epochs
    while step >= length:
        step, length = step - length, length * longer  # type: ignore[assignment]
    return _between(recipe, (1 + math.cos(math.pi * step / length)) / 2)


def _between(recipe: Recipe, share: float) -> float:
    """The final learning rate at a share of 0, the first one at 1."""
    return recipe.final_learning_rate + (recipe.learning_rate - recipe.final_learning_rate) * share
