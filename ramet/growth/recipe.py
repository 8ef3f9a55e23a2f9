"""How a network is trained between two growths unless a user says otherwise, and what its schedule runs over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ramet.errors import ConfigError
from ramet.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class GrowRecipe(Recipe):
    """How the network is trained between two growths; the defaults suit a laptop.

    Args:
        epochs: passes over the training images between two growths.
        learning_rate: the first step's learning rate; it starts anew after each growth, unless schedule_over says
            otherwise.
        schedule_over: what the schedule and its warm-up run over: each round (a training between two growths), or all
            of the growth, of as many rounds as its budget and its largest number of steps foresee; growth ends there.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 0.05
    weight_decay: float = 0.0005
    schedule_over: Literal["round", "growth"] = "round"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule_over not in ("round", "growth"):
            raise ConfigError(f"schedule_over must be round or growth, but got {self.schedule_over!r}.")
