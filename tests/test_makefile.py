"""What the targets of the Makefile would install, told by make itself without doing it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = "'.[dev]'"
pytestmark = pytest.mark.needs_program


@pytest.fixture
def plan(tmp_path: Path, find_program: Callable[[str], str]) -> Callable[[str], str]:
    """The commands that a target would run in a fresh clone, or in one where some files are there."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    make = find_program("make")

    def commands(target: str, *there: str) -> str:
        for name in there:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        done = subprocess.run([make, "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return commands


def test_the_demo_installs_no_tools(plan: Callable[..., str]) -> None:
    demo = plan("demo")
    assert "pip install" in demo and "ramet tour" in demo and TOOLS not in demo
    assert "pip install" not in plan("demo", ".venv/installed-runtime"), "once is enough"


@pytest.mark.parametrize("target", ["install", "test", "test-all", "lint", "format", "bench"])
def test_developers_targets_install_them(plan: Callable[..., str], target: str) -> None:
    assert TOOLS in plan(target)
    assert TOOLS in plan(target, ".venv/installed-runtime"), "also after a demo"
    assert "pip install" not in plan(target, ".venv/installed-runtime", ".venv/installed"), "once is enough"
