"""``python -m benchmarks.peers [NAME ...]``: one table of ratios; exit code 1 if a limit is broken."""

from __future__ import annotations

import sys

from benchmarks.running import run_named

NAMES = ("avalanche", "gromo", "rsatoolbox", "nni")

if __name__ == "__main__":
    sys.exit(run_named("benchmarks.peers", NAMES))
