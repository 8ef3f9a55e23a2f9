"""A way to train a supernet from words, from a file, or from an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ramet.errors import ConfigError
from ramet.ranking.trainings import TRAININGS
from ramet.ranking.trainings.base import SupernetTraining
from ramet.spaces import Space

TrainingSource = str | Mapping[str, Any] | SupernetTraining | Callable[..., SupernetTraining]
"""What names one: a text, an object, or a class or function that is called as ``make(space, seed=seed)``."""


def make_training(source: TrainingSource, space: Space, *, seed: int = 0, trusted: bool = True) -> SupernetTraining:
    """A way to train a supernet of a space.

    Args:
        source: ``uniform``, ``fair``, ``sandwich:num_between=1``, ``FILE.py:Class``, a class or function, or an object.
        space: the architectures.
        seed: of all draws.
        trusted: whether code that the text names may run.

    Raises:
        ConfigError: there is no such way, it does not take the options, or it is of another space.

    >>> from ramet.spaces import Cells64
    >>> make_training("fair", Cells64()).children_per_step
    4
    """
    made = TRAININGS.make(source, space, seed=seed, trusted=trusted)
    if made.space.num_options != space.num_options:
        raise ConfigError(
            f"a training must be of the space that is trained, of {space.num_archs} architectures, "
            f"but its own has {made.space.num_archs}."
        )
    return made
