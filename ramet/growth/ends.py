"""When a growth ends, besides the end of its budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramet.errors import ConfigError

if TYPE_CHECKING:
    from ramet.growth.budget import Budget
    from ramet.growth.history import History


@dataclass(frozen=True, kw_only=True)
class Ends:
    """When growth ends, besides the end of the budget.

    Args:
        target: end when the validation score reaches this: the share of images that are right, or minus the loss.
        patience: end when so many steps have brought no gain; by default growth goes on to the budget.
        min_gain: what counts as a gain for that.
        max_steps: end after so many growth steps.

    Raises:
        ConfigError: for a number out of its range.
    """

    target: float | None = None
    patience: int | None = None
    min_gain: float = 0.0
    max_steps: int | None = None

    def __post_init__(self) -> None:
        if self.patience is not None and self.patience < 1:
            raise ConfigError(f"patience must be at least 1, but got {self.patience}.")
        if self.max_steps is not None and self.max_steps < 0:
            raise ConfigError(f"max_steps must not be negative, but got {self.max_steps}.")
        if not 0 <= self.min_gain < float("inf"):
            raise ConfigError(f"min_gain must not be negative, but got {self.min_gain}.")
        if self.target is not None and self.target != self.target:
            raise ConfigError(f"target must be a number, but got {self.target}.")

    def reason(self, history: History, budget: Budget) -> str:
        """Why growth ends after the last step of a history, or nothing."""
        steps = history.steps
        scores = [step.score for step in steps if step.score is not None]
        if self.target is not None and scores[-1] >= self.target:
            return "the target is reached"
        if steps[-1].budget_size >= budget.total:
            return "the budget is reached"
        if self.patience is not None and len(scores) > self.patience:
            before, recent = max(scores[: -self.patience]), max(scores[-self.patience :])
            if recent < before + self.min_gain or (self.min_gain == 0 and recent <= before):
                return "growth no longer pays"
        if self.max_steps is not None and len(steps) > self.max_steps:
            return "the number of steps is reached"
        return ""
