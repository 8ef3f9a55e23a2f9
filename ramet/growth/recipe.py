"""How a network is trained while it grows unless a user says otherwise, and what its schedule runs over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ramet.errors import ConfigError
from ramet.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class GrowRecipe(Recipe):
    """How the network is trained while it grows; the defaults suit a laptop.

    Args:
        epochs: what all of the growth is worth, in passes over the training images at its final size: it costs as much
            as training that network for so long. With another schedule_over, the passes between two growths.
        learning_rate: the first step's learning rate; there is one schedule, unless schedule_over says otherwise.
        schedule_over: what the schedule and its warm-up run over: the work, where the last round (a training between
            two growths), at the final size, has what the others leave; each round, which has all the epochs; or all of
            the growth, of as many such rounds as its budget and its largest number of steps foresee, where it ends.
        begin: by work, the share of the budget that the network is widened to, in its own proportions and without a
            change of what it computes, before anything is trained. One that is larger stays as it is, as with 0; so
            does every network whose growth may end at a target or for want of gains.
        before: by work, the share of it that the rounds before the final size have.
        finish: by work, whether the last round goes on with the grown weights, or draws them anew (scratch).
    """

    epochs: int = 40
    batch_size: int = 64
    learning_rate: float = 0.05
    weight_decay: float = 0.0005
    schedule_over: Literal["round", "growth", "work"] = "work"
    begin: float = 0.5
    before: float = 0.25
    finish: Literal["continue", "scratch"] = "continue"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule_over not in ("round", "growth", "work"):
            raise ConfigError(f"schedule_over must be round, growth or work, but got {self.schedule_over!r}.")
        if not 0 <= self.begin < 1:
            raise ConfigError(f"begin must be a share of the budget, at least 0 and below 1, but got {self.begin}.")
        if not 0 < self.before < 1:
            raise ConfigError(f"before must be a share of the work, above 0 and below 1, but got {self.before}.")
        if self.finish not in ("continue", "scratch"):
            raise ConfigError(f"finish must be continue or scratch, but got {self.finish!r}.")
        if self.finish != "continue" and self.schedule_over != "work":
            raise ConfigError(f"finish is for a growth by work, but got {self.finish!r} with {self.schedule_over!r}.")
