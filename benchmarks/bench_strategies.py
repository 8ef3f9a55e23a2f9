"""Strategies on NAS-Bench-201's table: the best validation accuracy among 500 queries, the mean of 10 seeds.

``RAMET_DATA=DIR python -m benchmarks.bench_strategies``; it needs ``nas/nasbench201.npz`` in that folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ramet.reports import Table
from ramet.search.tabular import beats_random, read_objective
from ramet.spaces import NasBench201


def main() -> None:
    path = Path(os.environ.get("RAMET_DATA", ".")) / "nas" / "nasbench201.npz"
    if not path.is_file():
        sys.exit(f"RAMET_DATA must point at a folder with nas/nasbench201.npz, but there is no {path}.")
    result = beats_random(read_objective(path, NasBench201()), report=lambda line: print(line, file=sys.stderr))
    rows = [[name, *figures.values()] for name, figures in result.items()]
    Table(["strategy", "best of 500, %", "deviation", "lowest", "share above random"], rows).print()


if __name__ == "__main__":
    main()
