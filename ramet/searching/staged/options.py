"""What a staged search may spend, and which of its stages there are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ramet.errors import ConfigError
from ramet.fields import require_types
from ramet.registry import quantity

STAGES = ("scores", "shared", "short", "predictor", "finalists")
"""The stages in their order."""

STAGED = "staged"
"""The strategy's name that stands for ``StagedSearch``, which has stages and no epochs."""


@dataclass(frozen=True, kw_only=True)
class StagedOptions:
    """What a staged search may spend, and how; for the strategy staged.

    Args:
        minutes: what it may take, on all workers; CPU time on a CPU, so that a busy machine finds the same. It includes
            the final training of the architecture found. One of minutes, evaluations and cost is given.
        evaluations: the same as a number of short trainings; a longer one counts as several. A run that is resumed ends
            with the same bits.
        cost: the same as multiply-adds of trainings, such as 20T; resumed with the same bits, too.
        stages: those that are wanted, joined by a plus sign: scores (training-free scores of all architectures), shared
            (weights shared by the best of them), short (some of the best trained alone, the better ones longer),
            predictor (fitted to what was trained, and choosing what is trained next) and finalists (the best trained
            longest); by default all but shared.
        scores: the training-free scores that are taken, joined by a plus sign (ramet list score); by default synflow
            and jacobian for numbers, parameters and flops for words.
        pool: a space of so many architectures is scored whole; of a larger one, up to two fifths of as many that are
            drawn, and then changed where they score best. By default 20,000, and with evaluations 100 for each of them,
            because scores are not paid from these.
        listed: how many of the best of them may be trained, or share weights.
        short_epochs: epochs of a short training where the budget is a number of evaluations; by default two, or as many
            as make 100 mini-batches. With another budget a short training is as long as lets four dozen of them have
            their share of it, but no longer than four epochs or 100 mini-batches.
    """

    minutes: float | None = None
    evaluations: int | None = None
    cost: str | None = None
    stages: str = "+".join(name for name in STAGES if name != "shared")
    scores: str | None = None
    pool: int | None = None
    listed: int = 600
    short_epochs: float | None = None

    def __post_init__(self) -> None:
        require_types(self)
        given = [name for name in ("minutes", "evaluations", "cost") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(f"a search has one budget: minutes, evaluations or cost, but got {' and '.join(given)}.")
        if given and not 0 < self.amount < math.inf:
            raise ConfigError(f"{given[0]} must be positive and finite, but got {getattr(self, given[0])}.")
        unknown = [name for name in self.stages.split("+") if name not in STAGES]
        if unknown or len(set(self.stages.split("+"))) < len(self.stages.split("+")):
            raise ConfigError(f"stages are some of {'+'.join(STAGES)}, each once, but got {self.stages!r}.")
        if not self.has("scores", "shared", "short"):
            raise ConfigError(f"a search needs scores, shared or short to choose by, but its stages are {self.stages}.")
        if self.has("predictor", "finalists") and not self.has("short"):
            raise ConfigError(f"predictor and finalists need the stage short, but the stages are {self.stages}.")
        if self.pool_size < 2 or self.listed < 2:
            raise ConfigError(f"pool and listed must be at least 2, but got {self.pool_size} and {self.listed}.")
        if self.short_epochs is not None and not 0 < self.short_epochs < math.inf:
            raise ConfigError(f"short_epochs must be positive and finite, but got {self.short_epochs}.")

    def has(self, *stages: str) -> bool:
        """Whether one of these stages is wanted."""
        return bool(set(stages) & set(self.stages.split("+")))

    @property
    def pool_size(self) -> int:
        """How many architectures may be scored.

        >>> StagedOptions(evaluations=40).pool_size, StagedOptions(minutes=10).pool_size
        (4000, 20000)
        """
        if self.pool is not None:
            return self.pool
        return (
            min(LARGEST_POOL, max(SCORED * round(self.amount), LEAST_POOL))
            if self.unit == "evaluations"
            else LARGEST_POOL
        )

    @property
    def is_limited(self) -> bool:
        """Whether a budget is given."""
        return any(value is not None for value in (self.minutes, self.evaluations, self.cost))

    @property
    def unit(self) -> str:
        """What is counted: seconds, evaluations or multiply-adds."""
        if self.minutes is not None:
            return "seconds"
        return "evaluations" if self.cost is None else "multiply-adds"

    @property
    def amount(self) -> float:
        """How many of them there are; of seconds, for one worker."""
        if self.minutes is not None:
            return 60.0 * self.minutes
        if self.cost is not None:
            return quantity(self.cost)
        return float(DEFAULT_EVALUATIONS if self.evaluations is None else self.evaluations)


LEAST_POOL, LARGEST_POOL, SCORED = 1_000, 20_000, 100
"""What a pool has at least and at most, and how many architectures for each evaluation."""

DEFAULT_EVALUATIONS = 40
"""The budget of a search that is given none."""
