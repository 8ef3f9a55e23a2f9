"""``python -m benchmarks [NAME ...]``: one table, each figure beside its limit; exit code 1 if a limit is broken."""

from __future__ import annotations

import sys

from benchmarks.running import run_named

NAMES = (
    "startup", "steps", "evaluation", "depthwise", "guards", "growth", "tasks", "memory", "workers", "executors",
    "strategies", "scaling", "recipe", "stored", "diagnostics", "elastic",
)  # fmt: skip

if __name__ == "__main__":  # worker processes import this file again
    sys.exit(run_named("benchmarks", NAMES))
