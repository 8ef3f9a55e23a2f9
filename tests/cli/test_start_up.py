"""`import ramet` and `ramet --help` do not wait for torch."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    code += (
        "\nimport sys; print(*(name for name in ('torch', 'numpy', 'scipy', 'sklearn', 'ray') if name in sys.modules))"
    )
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


JOBS = [["rank", "--help"], ["search", "--help"], ["grow", "--help"]]


@pytest.mark.parametrize("arguments", [["--help"], *JOBS, ["reproduce", "--help"], ["--version"]], ids=str)
def test_help_is_light_and_takes_less_than_a_second(arguments: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert heavy_modules_after(HELP.format(arguments=arguments)) == set()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time, because the wall clock says how busy the machine is.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
