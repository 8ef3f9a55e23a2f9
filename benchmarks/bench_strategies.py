"""Strategies on NAS-Bench-201's table: the mean best validation accuracy among 500 queries, over 10 seeds.

Without any training: whether a strategy learns at all. Each must beat random search. It needs ``nas/nasbench201.npz``
in the folder that ``RAMET_DATA`` names, and is left out, with a word, where there is none.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.rows import Row
from ramet.spaces import NasBench201
from ramet_papers.nasbench201.tabular import beats_random, read_objective

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


if __name__ == "__main__":
    from benchmarks.rows import as_table

    print(as_table(run()))
