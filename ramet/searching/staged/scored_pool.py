"""The architectures that a staged search looks at, with the scores of their untrained networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ramet.errors import RunError
from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.ranking.scores.aggregate import combine_ranks
from ramet.ranking.setup import SupernetSetup
from ramet.searching.baselines import find_largest, fitting
from ramet.searching.costs import MEASURED, ArchCosts, parse_limits
from ramet.searching.plan import SearchPlan
from ramet.searching.staged.agreement import best_first
from ramet.searching.staged.budget import SCORES_SHARE, SearchBudget
from ramet.searching.staged.pool import changed_pool, distinct, first_pool
from ramet.searching.staged.tasks import count_sizes, score_part
from ramet.searching.staged.work import RecordedWork
from ramet.seeding import torch_generator
from ramet.spaces import Arch

PART = 250
"""Architectures that one task scores."""
SIZE = "flops"
"""The score that says which architecture is the largest."""


class ScoredPool:
    """The pool of a search: ``archs``, and each score of all of them in ``scores``, higher being better.

    Args:
        setup: the space, the data and the recipe.
        plan: what is done.
        costs: what limits are kept by.
        budget: what scoring is paid from.
        work: where it is done.
        seed: of draws and of untrained weights.
    """

    def __init__(
        self,
        setup: SupernetSetup,
        plan: SearchPlan,
        costs: ArchCosts,
        budget: SearchBudget,
        work: RecordedWork,
        seed: int,
    ) -> None:
        self._setup, self._plan, self._options, self._costs = setup, plan, plan.staged, costs
        self._budget, self._work, self._seed = budget, work, seed
        self.archs: list[Arch] = []
        self.scores: dict[str, Floats] = {}

    def fill(self) -> None:
        """The pool and its scores; a space larger than the pool is drawn from, then changed where it is best."""
        space, options, generator = self._setup.space, self._options, torch_generator(self._seed, "pool")
        fits, refuge = fitting(self._costs, self._plan.budget)
        is_whole = space.num_archs <= options.pool_size
        size = options.pool_size if is_whole else max(2, options.pool_size // 10)

        def first() -> list[Arch]:
            pool = first_pool(space, size, fits, generator)
            if is_whole:
                return pool
            # The largest is hardly among those drawn.
            largest = space.derived(find_largest(space, lambda arch: self._costs("flops", arch), fits, refuge))
            return distinct(space, [largest, *pool]) if fits(largest) else pool

        self.archs = self._drawn(first)
        names = self._score_names()
        if not options.has("scores"):
            return
        self._score(self.archs, names)
        while not is_whole and self._may_score() and len(self.archs) < 4 * size:
            order = best_first(self.order())[: max(10, size // 20)]
            best = [self.archs[place] for place in order]
            fresh = self._drawn(partial(changed_pool, space, best, self.archs, size // 2, fits, generator))
            if not fresh:
                break
            self.archs += fresh
            self._score(fresh, names)

    def _drawn(self, make: Callable[[], list[Arch]]) -> list[Arch]:
        """Architectures that keep the budget; a latency is not measured the same twice, so that they are recorded."""
        if self._plan.budget is None or not set(parse_limits(self._plan.budget)) & set(MEASURED):
            return make()
        key = f"staged/pool/{len(self.archs)}"
        archs = self._work.decide(key, lambda: {"archs": [list(arch) for arch in make()]})["archs"]
        return [tuple(arch) for arch in archs]

    def _score_names(self) -> list[str]:
        """The scores that order, and the size of networks, which is a baseline in any case."""
        if self._options.scores is not None:
            names = self._options.scores.split("+")
        else:
            names = ["synflow", "jacobian"] if self._setup.data.train.x.is_floating_point() else ["parameters", SIZE]
        return list(dict.fromkeys([*names, SIZE]))

    def ordering(self) -> list[str]:
        """The scores that order the pool: those that were asked for, as far as the networks have them."""
        asked = [name for name in self._score_names() if name in self.scores]
        others = [name for name in asked if name != SIZE]
        wants_size = self._options.scores is not None and SIZE in self._options.scores.split("+")
        return asked if wants_size or not others else others

    def order(self) -> Floats:
        """The ranks of all these scores as one, higher being better: [architectures]."""
        return combine_ranks([self.scores[name] for name in self.ordering()])

    def count_sizes(self, places: Sequence[int]) -> None:
        """Count the multiply-adds of some at their true depth, which stand beside their losses; this is paid for, too.

        The scores are those of networks with fewer cells.
        """
        places = list(dict.fromkeys(places))
        parts = [[self.archs[place] for place in places[start : start + PART]] for start in range(0, len(places), PART)]
        tasks = [
            WorkItem(f"staged/sizes/{number}", count_sizes, {"archs": [list(arch) for arch in part]})
            for number, part in enumerate(parts)
        ]
        for part, result in zip(parts, self._work.results(tasks, self._budget, "scores"), strict=True):
            counted = zip(part, result["flops"], strict=True)
            self._costs.known.update({("flops", arch): float(flops) for arch, flops in counted})

    def _may_score(self) -> bool:
        return self._budget.spent.get("scores", 0.0) < SCORES_SHARE * self._budget.amount

    def _score(self, archs: list[Arch], names: Sequence[str]) -> None:
        """Score architectures in parts, until the stage's share is spent; what was not scored leaves the pool."""
        first = len(self.archs) - len(archs)
        parts = [archs[start : start + PART] for start in range(0, len(archs), PART)]
        values: dict[str, list[float]] = {name: list(self.scores.get(name, [])) for name in names}
        num_scored, together = 0, 2 * self._budget.workers
        for start in range(0, len(parts), together):
            group = range(start, min(start + together, len(parts)))
            tasks = [
                WorkItem(
                    f"staged/scores/{first + number * PART}",
                    score_part,
                    {"archs": [list(arch) for arch in parts[number]], "scores": list(names), "seed": self._seed},
                )
                for number in group
            ]
            for number, result in zip(group, self._work.results(tasks, self._budget, "scores"), strict=True):
                for name in names:
                    values[name] += result["values"].get(name, [])
                num_scored += len(parts[number])
            if not self._may_score():
                break
        del self.archs[first + num_scored :]
        scored = {name: np.array(row) for name, row in values.items() if len(row) == len(self.archs)}
        if not scored:
            raise RunError("at least one training-free score must suit the networks of the space, but none does.")
        # A NaN is a network that cannot be scored, which is worse than any that can.
        self.scores = {name: np.where(np.isnan(row), -np.inf, row) for name, row in scored.items()}
