"""Strategies on NAS-Bench-201's table: the mean best validation accuracy among 500 queries, over 10 seeds.

Without any training: whether a strategy learns at all. Each must beat random search. It needs ``nas/nasbench201.npz``
in the folder that ``RAMET_DATA`` names, and is left out, with a word, where there is none.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from ramet.ranking.truth import read_table
from ramet.spaces import NasBench201, Space
from ramet_papers.nasbench201.tasks import BATCHES, Objective, find_best

NUM_SEEDS, NUM_QUERIES = 10, 500


def run() -> list[Row]:
    path = Path(os.environ.get("RAMET_DATA", ".")) / "nas" / "nasbench201.npz"
    if not path.is_file():
        print("  left out: RAMET_DATA names no folder with nas/nasbench201.npz", file=sys.stderr)
        return []
    objective = read_objective(path, NasBench201())
    start, lines = time.process_time(), []

    def report(line: str) -> None:
        lines.append(f"{line}, {time.process_time() - start:.0f} CPU-s so far")
        print(f"  {lines[-1]}", file=sys.stderr, flush=True)

    result = beats_random(objective, num_seeds=NUM_SEEDS, num_queries=NUM_QUERIES, report=report)
    random = result.pop("random")
    return [
        Row(
            name=f"{name} above random, best of {NUM_QUERIES}, table of NAS-Bench-201",
            value=figures["mean"] - random["mean"],
            limit=0.0,
            at_least=True,
            unit=" points",
            detail=f"{figures['mean']:.2f} +- {figures['deviation']:.2f} against {random['mean']:.2f} +- "
            f"{random['deviation']:.2f} %, {NUM_SEEDS} seeds, {100 * figures['above_random']:.0f} % of them above",
        )
        for name, figures in result.items()
    ]


def read_objective(path: Path, space: Space, column: str = "cifar10_val_acc_12ep") -> Objective:
    """The validation accuracy of NAS-Bench-201's table as a reward between 0 and 1."""
    table = read_table(f"{path}:{column}", space, range(len(space))).mean / 100
    return space, lambda arch: float(table[space.index(arch)])


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
        seeds = range(num_seeds)
        values = [100 * find_best(objective, name, seed=seed, num_queries=num_queries)[1] for seed in seeds]
        mean = float(np.mean(values))
        above = float(np.mean(np.array(values) > result["random"]["mean"])) if result else float("nan")
        deviation = float(np.std(values, ddof=1)) if num_seeds > 1 else float("nan")
        result[name] = {"mean": mean, "deviation": deviation, "lowest": min(values), "above_random": above}
        report(f"{name}: {mean:.3f} +- {deviation:.3f}")
    return result


if __name__ == "__main__":
    from benchmarks.rows import as_table

    print(as_table(run()))
