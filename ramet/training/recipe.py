"""How long, how fast and how strongly regularised a network is trained: the numbers of one training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ramet.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The numbers of one training; the defaults are those of *Deeper insights into weight sharing*, section 3.1.

    SGD with momentum, its learning rate annealed by a cosine from ``learning_rate`` to ``final_learning_rate``.

    Departs from the paper: the cosine is followed step by step instead of epoch by epoch, so that a training of a
    few epochs is annealed as smoothly as one of 200.

    Args:
        epochs: passes over the training split.
        batch_size: samples in a mini-batch.
        learning_rate: the first step's learning rate.
        final_learning_rate: the learning rate that the cosine ends at.
        momentum: SGD's momentum.
        weight_decay: SGD's weight decay.
        clip_norm: the largest norm of the whole gradient, or none.

    Raises:
        ConfigError: a number is out of its range.
    """

    epochs: int = 200
    batch_size: int = 256
    learning_rate: float = 0.025
    final_learning_rate: float = 0.001
    momentum: float = 0.9
    weight_decay: float = 1e-3
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        _require(self.epochs >= 1, "epochs must be at least 1", self.epochs)
        _require(
            self.batch_size >= 2, "batch_size must be at least 2, because batch norm needs two samples", self.batch_size
        )
        _require(0 < self.learning_rate < math.inf, "learning_rate must be positive and finite", self.learning_rate)
        _require(
            0 <= self.final_learning_rate <= self.learning_rate,
            "final_learning_rate must lie between 0 and learning_rate",
            self.final_learning_rate,
        )
        _require(0 <= self.momentum < 1, "momentum must lie in [0, 1)", self.momentum)
        _require(0 <= self.weight_decay < math.inf, "weight_decay must not be negative", self.weight_decay)
        if self.clip_norm is not None:
            _require(self.clip_norm > 0, "clip_norm must be positive", self.clip_norm)

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """The learning rate of a step, counted from 0, of a training of ``num_steps`` steps.

        >>> settings = Recipe(learning_rate=0.1, final_learning_rate=0.0)
        >>> [round(settings.learning_rate_at(step, 4), 3) for step in range(5)]
        [0.1, 0.085, 0.05, 0.015, 0.0]
        """
        cosine = (1 + math.cos(math.pi * step / num_steps)) / 2
        return self.final_learning_rate + (self.learning_rate - self.final_learning_rate) * cosine


Settings = Recipe
"""The earlier name."""


def _require(holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"{rule}, but got {value}.")
