"""The tutorials, as a stranger follows them: every command of the page, word for word, in an empty folder."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
FIRST = TUTORIALS / "own-images.md"
FOLLOW = runpy.run_path(str(ROOT / ".ci" / "follow"), run_name="follow")
OTHERS = sorted(page.name for page in TUTORIALS.glob("*.md") if page != FIRST)


def commands(page: Path) -> list[str]:
    return [code for kind, code in FOLLOW["steps_of"](page.read_text(encoding="utf-8")) if kind == "bash"]


def test_the_first_path_is_short_and_leads_to_a_network_that_torch_loads():
    found = commands(FIRST)
    assert len(found) < 10
    verbs = {code.split()[1] for code in found if code.startswith("ramet ")}
    assert {"search", "grow", "learn"} <= verbs
    assert found[-1].startswith("python -") and "torch.export.load" in found[-1] and "import ramet" not in found[-1]


def test_every_block_of_a_tutorial_is_understood():
    for page in TUTORIALS.glob("*.md"):
        lines = [
            line
            for _, block in FOLLOW["FENCE"].findall(page.read_text(encoding="utf-8"))
            for line in block.splitlines()
        ]
        steps = "".join(code for _, code in FOLLOW["steps_of"](page.read_text(encoding="utf-8"))).splitlines()
        assert lines == steps and any(code.startswith("ramet ") for code in commands(page)), page.name


def test_a_block_that_begins_with_something_else_is_refused():
    with pytest.raises(SystemExit, match="must begin with a command"):
        FOLLOW["commands_of"]("sudo make me\n")


@pytest.fixture
def follow(tmp_path):
    """Follows pages in an empty folder, with the code of this repository as the package."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("ramet", f'"{sys.executable}" -m ramet'), ("python", f'"{sys.executable}"')):
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    folder = tmp_path / "empty"
    folder.mkdir()
    place = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(*pages: Path) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, str(ROOT / ".ci" / "follow"), *map(str, pages)]
        return subprocess.run(arguments, cwd=folder, env=os.environ | place, capture_output=True, text=True)

    return run


def test_a_command_that_fails_ends_it(follow, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```bash\necho first\nls nowhere\necho last\n```\n")
    done = follow(page)
    assert done.returncode == 1 and "first" in done.stdout and "last" not in done.stdout


def test_a_program_of_the_readers_own_has_no_ramet(follow, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```bash\npython - <<'EOF'\nimport ramet\nEOF\n```\n")
    done = follow(page)
    assert done.returncode == 1 and "this must work without ramet" in done.stderr


@pytest.mark.slow
def test_the_first_tutorial_leads_to_its_end(follow):
    done = follow(FIRST)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"network\.pt2 torch\.Size\(\[2, 10\]\)", done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_tutorial_leads_to_its_end(follow, tmp_path, name):
    images = tmp_path / "images.md"  # the block of the first tutorial that makes the folder
    images.write_text(
        "```python\n" + next(c for k, c in FOLLOW["steps_of"](FIRST.read_text()) if k == "python") + "```\n"
    )
    done = follow(images, TUTORIALS / name)
    assert done.returncode == 0, done.stderr[-3000:]
