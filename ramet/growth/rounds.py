"""The rounds of a growth: how long each training between two growths is, and its place in the schedule.

Three ways, ``GrowRecipe.schedule_over``: ``round``, each has its epochs and a schedule of its own; ``growth``, each has
its epochs and one schedule runs over all; ``work``, all of the growth is worth the recipe's epochs at the final size,
the rounds before that size take a share of it, and the last one has all that is left. One schedule then runs over the
work that is done, whatever it is done for.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ramet.growth.budget import Budget
from ramet.growth.recipe import GrowRecipe
from ramet.growth.work import affordable_steps
from ramet.training import Settings


@dataclass
class Foreseen:
    """What was worked out before anything grew, and saved with the growth.

    Attributes:
        count: rounds; 0 where nothing is foreseen. One that ends early has fewer.
        work: of all rounds and growths.
        early_steps: of each round before the last.
        most_steps: more than any round has.
        ratio: how many times larger each growth makes the network; by work all grow by the same.
        fills: whether the last round has all of the budget.
        ending: why growth has ended, while the last round is under way before the foreseen one.
    """

    count: int = 0
    work: float = 0.0
    early_steps: int = 0
    most_steps: int = 0
    ratio: float = 1.0
    fills: bool = True
    ending: str = ""


class Rounds:
    """The lengths of the rounds and their learning rates.

    Args:
        recipe: of each round, or of all.
        steps_per_epoch: mini-batches of a pass over the data.
    """

    def __init__(self, recipe: Settings, steps_per_epoch: int) -> None:
        self.recipe, self.steps_per_epoch = recipe, steps_per_epoch
        self.over = recipe.schedule_over if isinstance(recipe, GrowRecipe) else "round"
        self.before = recipe.before if isinstance(recipe, GrowRecipe) else 0.0
        self.begin = recipe.begin if isinstance(recipe, GrowRecipe) and self.by_work else 0.0
        self.num_steps = recipe.epochs * steps_per_epoch  # of a round, or at the final size
        self.foreseen = Foreseen()

    @property
    def by_work(self) -> bool:
        """Whether rounds share the work of one training."""
        return self.over == "work"

    @property
    def early_steps(self) -> int:
        """The steps of each round but the last."""
        return self.foreseen.early_steps if self.by_work else self.num_steps

    def foresee(self, budget: Budget, size: float, step_work: float, max_steps: int | None) -> None:
        """Work out how many rounds there will be and, by work, what they may cost together.

        Args:
            budget: how large the network may get.
            size: of the network before it grows, in the budget's unit.
            step_work: what one training step of it costs.
            max_steps: the largest number of growths.
        """
        if self.over == "round":
            return
        sizes = foreseen_sizes(budget, size, max_steps)
        self.foreseen = Foreseen(len(sizes), fills=sizes[-1] >= budget.total)
        if self.by_work:
            # Units are made of weights to and from their neighbours, so that parameters and multiply-adds grow as the
            # square of their number. The last round makes up for what is foreseen wrongly here.
            power = 2 if budget.unit == "neurons" else 1
            self.foreseen.ratio = (sizes[-1] / size) ** (1 / max(1, len(sizes) - 1))
            relative = [self.foreseen.ratio ** (power * number) for number in range(len(sizes))]
            self.foreseen.work = self.num_steps * step_work * relative[-1]
            early = sum(relative[:-1])
            steps = self.before * self.num_steps * relative[-1] / early if early else 0.0
            self.foreseen.early_steps = max(1, round(steps))
            self.foreseen.most_steps = self.foreseen.early_steps + int(self.num_steps * relative[-1]) + 1

    def most(self, max_steps: int | None) -> int:
        """The rounds that a schedule over all of them has; 0 if there is none."""
        count = self.foreseen.count
        return count if max_steps is None else min(count, max_steps + 1)

    def allowance(self, budget: Budget, phase: int, size: float) -> float:
        """How much the growth before a round may add to a network of this size."""
        if not self.by_work:
            return budget.allowance(size)
        left = budget.total - size
        if self.is_last(phase) and self.foreseen.fills:
            return left  # however much the others have left of theirs
        return min(left, (self.foreseen.ratio - 1) * size)

    def is_last(self, phase: int) -> bool:
        """Whether a round is the last that is foreseen."""
        return bool(self.foreseen.count) and phase >= self.foreseen.count - 1

    def end_with(self, phase: int, reason: str) -> None:
        """Let a round be the last, although more were foreseen, because growth has ended."""
        self.foreseen = replace(self.foreseen, count=phase + 1, ending=reason)

    def length(self, phase: int, step_work: float, spent: float) -> int:
        """The steps of a round of this cost each, after so much work has been done."""
        if not self.by_work:
            return self.num_steps
        if self.is_last(phase):
            return affordable_steps(self.foreseen.work - spent, step_work)
        return self.early_steps

    def rate(self, phase: int, number: int, most: int, step_work: float, spent: float) -> float:
        """The learning rate of a step of a round.

        Args:
            phase: which round, from 0.
            number: of the step in it, from 0.
            most: rounds that the schedule runs over, where that is a number of rounds.
            step_work: what a step costs.
            spent: the work that had been done before the round.
        """
        if self.by_work:
            done = (spent + number * step_work) / self.foreseen.work if self.foreseen.work else 0.0
            return self.recipe.learning_rate_at(min(int(done * self.num_steps), self.num_steps - 1), self.num_steps)
        rounds, before = (max(1, most), phase * self.num_steps) if self.over == "growth" else (1, 0)
        scheduled = replace(self.recipe, epochs=rounds * self.recipe.epochs)  # some schedules count in epochs
        return scheduled.learning_rate_at(before + number, rounds * self.num_steps)

    def to_json(self) -> dict[str, Any]:
        """What was foreseen, as JSON values."""
        return asdict(self.foreseen)

    def load(self, saved: dict[str, Any]) -> None:
        """The inverse of ``to_json``."""
        self.foreseen = Foreseen(**saved)


def foreseen_sizes(budget: Budget, size: float, max_steps: int | None) -> list[float]:
    """The sizes of the rounds if each growth adds what it may, from the network as it is.

    >>> foreseen_sizes(Budget("params", 400.0, step=1.0, share=True), 100.0, None)
    [100.0, 200.0, 400.0]
    >>> foreseen_sizes(Budget("params", 400.0, step=1.0, share=True), 100.0, 1)
    [100.0, 200.0]
    """
    sizes = [size]
    for _ in range(budget.num_steps(size) if max_steps is None else min(max_steps, budget.num_steps(size))):
        added = budget.allowance(sizes[-1])
        sizes.append(sizes[-1] + (max(1.0, float(int(added))) if budget.unit == "neurons" else added))
    return sizes
