"""`import ramet` and `ramet --help` do not wait for torch."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ramet.jobs import SUMMARIES

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "numpy", "scipy", "sklearn", "ray", "optuna", "sqlalchemy")
HELP = """
import sys
from ramet.cli import main
try:
    main({arguments})
except SystemExit as end:
    assert not end.code
"""


def heavy_modules_after(code: str) -> set[str]:
    """Which heavy libraries a fresh interpreter has loaded at the end of a piece of code."""
    code += f"\nimport sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_the_probe_sees_torch() -> None:
    assert "torch" in heavy_modules_after("import ramet; ramet.training.fit")


LIGHT = ["ramet", "ramet.cli", "ramet.execution", "ramet.runs", "ramet.searching.plan", "ramet.growth.plan"]


@pytest.mark.parametrize("module", LIGHT)
def test_importing_is_light(module: str) -> None:
    assert heavy_modules_after(f"import {module}") == set()


def processor_seconds(code: str) -> tuple[float, set[str]]:
    """Processor time, because the wall clock says how busy the machine is; and the heavy modules."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    loaded = heavy_modules_after(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, loaded


@pytest.fixture(scope="module")
def seconds_of_torch() -> float:
    return processor_seconds("import torch")[0]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], *([kind, "--help"] for kind in SUMMARIES), ["reproduce", "--help"], ["--version"]],
    ids=str,
)
def test_help_is_light_and_takes_a_fraction_of_importing_torch(arguments: list[str], seconds_of_torch: float) -> None:
    seconds, loaded = processor_seconds(HELP.format(arguments=arguments))
    assert loaded == set()
    # A sixth of it; beside torch's and not in seconds, because processors differ.
    assert seconds < seconds_of_torch / 2
