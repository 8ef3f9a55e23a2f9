"""Where the truth of a diagnosis comes from: trainings of each child alone, a table, or nowhere."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.alone import train_alone
from ramet.ranking.plan import Plan
from ramet.ranking.truth import Truth, TruthCache
from ramet.runs import Run
from ramet.training import Metric


class TruthSource:
    """Where a truth comes from, a table or none: what must still be trained for it, and all of it in the end."""

    def __init__(self, truth: Truth | None = None) -> None:
        self._truth = truth

    def missing_tasks(self) -> list[WorkItem]:
        """What must still be trained."""
        return []

    def collect(self) -> Truth | None:
        """All of it."""
        return self._truth


class TrainedTruth(TruthSource):
    """Every child trained alone; what the records or the cache hold is not trained again."""

    def __init__(self, run: Run, plan: Plan, cache: TruthCache, scored: Sequence[int], metric: Metric) -> None:
        self._run, self._plan, self._scored, self._metric = run, plan, scored, metric
        records = run.records
        for seed, index in itertools.product(range(self._plan.truth_seeds), scored):
            key, known = truth_key(index, seed), cache.get(index, seed)
            if known is not None and key not in records:
                records.append(key, **known)
            if known is None and key in records:  # killed after the record and before the cache
                cache.put(index, seed, {name: value for name, value in records[key].items() if name != "key"})

    def missing_tasks(self) -> list[WorkItem]:
        """The trainings that are not known."""
        # Seed by seed, so that a run that is cut short has whole seeds.
        tasks = [
            WorkItem(truth_key(index, seed), train_alone, {"index": index, "seed": seed})
            for seed in range(self._plan.truth_seeds)
            for index in self._scored
        ]
        return [task for task in tasks if task.key not in self._run.records]

    def collect(self) -> Truth:
        """The metric on test data of each child and seed, as scores."""
        scores = [
            [self._metric.score(self._run.records[truth_key(index, seed)]["test"]) for index in self._scored]
            for seed in range(self._plan.truth_seeds)
        ]
        source = f"each child trained alone, mean of {self._plan.truth_seeds} seeds"
        return Truth(np.asarray(scores), source, unit="share" if self._metric.is_accuracy else "metric")


def truth_key(index: int, seed: int) -> str:
    """The name of one training of the truth, in records."""
    return f"truth/child-{index}/seed-{seed}"
