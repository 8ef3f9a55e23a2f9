"""Strategies on a table instead of a supernet: whether they learn at all, without any training of networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ramet.ranking.truth import read_table
from ramet.searching.strategies import make_strategy
from ramet.spaces import Arch, Space

Objective = tuple[Space, Callable[[Arch], float]]
"""A space, and the reward of each of its architectures."""

OPTIONS: dict[str, dict[str, Any]] = {
    "random": {},
    "evolution": {},
    "enas": {},
    # The reference's 600 random seeds are more than all 500 queries: a sixth of them instead. The model goes on from
    # its last training, so that few passes over few observations are enough; they are nearly all that NAO costs.
    "nao": {"num_seeds": 100, "epochs": 30, "train_every": 100},
}
BATCHES = {"random": 10, "evolution": 10, "enas": 1, "nao": 50}
"""Architectures a turn. The controller takes a step for each one, as Algorithm 1 of *Disturbance-immune* does."""


def read_objective(path: Path, space: Space, column: str = "cifar10_val_acc_12ep") -> Objective:
    """The validation accuracy of NAS-Bench-201's table as a reward between 0 and 1."""
    table = read_table(f"{path}:{column}", space, range(len(space))).mean / 100
    return space, lambda arch: float(table[space.index(arch)])


def find_best(objective: Objective, name: str, *, seed: int, num_queries: int, **options: Any) -> tuple[Arch, float]:
    """The architecture of the highest reward among the queries of one search, and that reward.

    A repeated architecture is a query too. Of equal rewards the first counts.
    """
    space, reward = objective
    strategy = make_strategy(name, space, seed=seed, **(OPTIONS[name] | options))
    best, highest, left = space[0], -np.inf, num_queries
    while left > 0:
        archs = strategy.propose(min(BATCHES[name], left))
        rewards = [reward(arch) for arch in archs]
        strategy.observe(archs, rewards)
        left -= len(archs)
        if max(rewards) > highest:
            highest = max(rewards)
            best = archs[rewards.index(highest)]
    return best, float(highest)


def best_of_search(objective: Objective, name: str, *, seed: int, num_queries: int, **options: Any) -> float:
    """The best reward among the queries of one search."""
    return find_best(objective, name, seed=seed, num_queries=num_queries, **options)[1]


def beats_random(
    objective: Objective,
    *,
    num_seeds: int = 10,
    num_queries: int = 500,
    report: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, float]]:
    """The best reward of each strategy in percent: mean, deviation, lowest over seeds, share of seeds above random.

    ``report`` is called with a line for each strategy when it is done.
    """
    result: dict[str, dict[str, float]] = {}
    for name in BATCHES:
        values = [
            100 * best_of_search(objective, name, seed=seed, num_queries=num_queries) for seed in range(num_seeds)
        ]
        mean = float(np.mean(values))
        above = float(np.mean(np.array(values) > result["random"]["mean"])) if result else float("nan")
        deviation = float(np.std(values, ddof=1)) if num_seeds > 1 else float("nan")
        result[name] = {"mean": mean, "deviation": deviation, "lowest": min(values), "above_random": above}
        report(f"{name}: {mean:.3f} +- {deviation:.3f}")
    return result
