"""``python -m benchmarks [NAME ...]``: one table, each figure beside its limit; exit code 1 if a limit is broken."""

from __future__ import annotations

import argparse
import importlib
import sys

from benchmarks.rows import as_table

NAMES = ("startup", "steps", "evaluation", "depthwise", "guards", "growth", "similarity", "memory", "workers")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(NAMES)}; all by default")
    names = parser.parse_args().names or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"a benchmark is one of {', '.join(NAMES)}, but got {unknown[0]!r}.")
    rows = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        for row in importlib.import_module(f"benchmarks.bench_{name}").run():
            print("  " + ", ".join(row.cells()), file=sys.stderr, flush=True)
            rows.append(row)
    print(as_table(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":  # worker processes import this file again
    sys.exit(main())
