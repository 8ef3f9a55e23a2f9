"""The pages' own networks, trained, grown and taught by the files that the page shows, outside of the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "workbench.md"
MOST_LINES = 15
STRENGTHS = {"resnet": "0.01", "vit": "1"}
"""Of the guard, as on the page: at 1 the residual network is hardly held, at 0.01 the transformer learns little."""


def files_of_the_page():
    blocks = re.findall(r"^```py\n# (\w+\.py)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return dict(blocks)


def test_each_file_has_at_most_fifteen_lines():
    files = files_of_the_page()
    assert {"networks.py", "train.py", "grow.py", "learn.py", "elastic.py", "guard.py"} <= set(files)
    for name, code in files.items():
        lines = [line for line in code.splitlines() if line.strip()]
        assert name == "networks.py" or len(lines) <= MOST_LINES, f"{name} has {len(lines)} lines"


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("network", ["resnet", "vit"])
def test_a_network_is_trained_grown_taught_and_guarded(network, tmp_path):
    for name, code in files_of_the_page().items():
        (tmp_path / name).write_text(code, encoding="utf-8")

    def run(script, *arguments):
        command = [sys.executable, script, network, *arguments]
        environment = {**os.environ, "RAMET_DATA": str(Path(os.environ["RAMET_DATA"]).absolute())}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        return done.stdout

    trained = float(re.search(r"([\d.]+)% of the test images", run("train.py"))[1])
    assert trained > 40
    assert "Report" in run("grow.py")
    assert "Report" in run("learn.py")
    sizes = re.findall(r"^width=\S+: ([\d.]+)% of the test images$", run("elastic.py"), re.MULTILINE)
    assert len(sizes) == 6 and min(map(float, sizes)) > 25, "per cent of ten classes, of a quarter of the channels too"
    told = re.compile(r"([\d.]+)% of the new task's test images, ([\d.]+)% of the old")
    unguarded = told.search(run("guard.py", "none"))
    guarded = told.search(run("guard.py", f"projection:{STRENGTHS[network]}:unit=energy"))
    assert float(guarded[2]) > float(unguarded[2]) + 2, "points of the first task that the guard keeps"
    assert float(guarded[1]) > 20, "per cent of ten classes: the second task is learned nevertheless"
