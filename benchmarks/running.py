"""The command line of a folder of benchmarks: which are run, what is printed, the exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from benchmarks.rows import as_table


def run_named(package: str, names: Sequence[str]) -> int:
    """Run ``package.bench_NAME`` for the names on the command line, all by default; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description="one table, each figure beside its limit")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(names)}; all by default")
    chosen = parser.parse_args().names or names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"a benchmark is one of {', '.join(names)}, but got {unknown[0]!r}.")
    rows = []
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        for row in importlib.import_module(f"{package}.bench_{name}").run():
            print("  " + ", ".join(row.cells()), file=sys.stderr, flush=True)
            rows.append(row)
    print(as_table(rows))
    return 0 if all(row.holds for row in rows) else 1
