"""What a staged search may spend, has spent and expects to spend, in one of three units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ramet.searching.staged.options import StagedOptions
from ramet.spaces import Arch

NUM_SHORT = 48
"""Short trainings for which a budget has room in the share of that stage."""
SHORT_SHARE = 0.4
"""The share of a budget that first short trainings have."""
SHARED_SHARE = 0.13
"""The share that the training of shared weights has; measuring its children takes about half as much again."""
SCORES_SHARE = 0.15
"""The share at which scoring untrained networks ends, whatever is left of the pool."""
SHORT_EPOCHS, LONGEST_SHORT_EPOCHS = 2.0, 4.0
"""Epochs of a short training where evaluations are counted, and the most that it has with another budget."""
TELLING_STEPS = 100
"""Where data are few, epochs are short: a training of fewer mini-batches than this says little of what it will give."""
FEWEST_STEPS = 8


@dataclass
class SearchBudget:
    """A budget in seconds, evaluations or multiply-adds.

    Args:
        options: the search's.
        workers: how many of them work at the same time; a budget in minutes is theirs together.
        steps_per_epoch: the mini-batches of an epoch.
        multiply_adds: of one training step of an architecture; asked for only where these are the unit.
    """

    options: StagedOptions
    workers: int
    steps_per_epoch: int
    multiply_adds: Callable[[Arch], float]
    spent: dict[str, float] = field(default_factory=dict)
    """What each stage has cost so far."""
    seconds_per_step: float = 0.0
    short_steps: int = 0
    """The mini-batches of a short training: the unit of evaluations."""

    def __post_init__(self) -> None:
        self.unit = self.options.unit
        self.amount = self.options.amount * (self.workers if self.unit == "seconds" else 1)
        self.reserved = 0.0

    @property
    def left(self) -> float:
        """What may still be spent."""
        return self.amount - self.reserved - sum(self.spent.values())

    def learn_speed(self, seconds_per_step: float, typical: Arch) -> None:
        """Set the length of a short training, from the seconds of a step where the unit is seconds."""
        self.seconds_per_step = seconds_per_step
        if self.unit == "evaluations":
            epochs = self.options.short_epochs
            steps = self._telling(SHORT_EPOCHS) if epochs is None else epochs * self.steps_per_epoch
        else:
            price = seconds_per_step if self.unit == "seconds" else self.multiply_adds(typical)
            steps = SHORT_SHARE * (self.amount - self.reserved) / NUM_SHORT / price
            steps = min(steps, self._telling(LONGEST_SHORT_EPOCHS))
        self.short_steps = max(FEWEST_STEPS, round(steps))

    def _telling(self, epochs: float) -> float:
        """The mini-batches of some epochs, or as many as tell something."""
        return max(epochs * self.steps_per_epoch, TELLING_STEPS)

    def price(self, num_steps: int, arch: Arch) -> float:
        """What some training steps are expected to cost."""
        if self.unit == "seconds":
            return num_steps * self.seconds_per_step
        if self.unit == "evaluations":
            return num_steps / self.short_steps
        return num_steps * self.multiply_adds(arch)

    def steps_for(self, amount: float, typical: Arch) -> int:
        """How many training steps an amount is expected to pay."""
        return int(amount / self.price(1, typical))

    def charge(self, stage: str, result: dict[str, float], arch: Arch | None = None) -> None:
        """Count what a task has cost, of training steps or of anything else that took seconds."""
        if self.unit == "seconds":
            cost = float(result["seconds"])
        elif arch is None:
            cost = 0.0  # untrained networks cost no training
        else:
            cost = self.price(int(result["steps"]), arch)
        self.spent[stage] = self.spent.get(stage, 0.0) + cost

    def observe_speed(self, results: Sequence[dict[str, float]]) -> None:
        """Let the seconds of trainings that were done say what the next will take."""
        steps = sum(result["steps"] for result in results)
        if self.unit == "seconds" and steps > 0:
            self.seconds_per_step = sum(result["seconds"] for result in results) / steps

    def text(self, amount: float) -> str:
        """An amount in words."""
        if self.unit == "seconds":
            return f"{amount / 60:.1f} min"
        return f"{amount:.1f} evaluations" if self.unit == "evaluations" else f"{amount:.3g} multiply-adds"
