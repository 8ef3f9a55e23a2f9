"""What a package of ramet says of itself, and that everything which it needs travels with it."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import ramet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_one():
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert PROJECT["project"]["version"] == ramet.__version__ == citation[1]


@pytest.mark.parametrize("package", ["ramet", "ramet_papers"])
def test_every_file_beside_the_code_is_packed(package):
    patterns = PROJECT["tool"]["setuptools"]["package-data"][package]
    folder = ROOT / package
    others = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert "py.typed" in others
    for name in others:
        assert any(fnmatch(name, pattern) for pattern in patterns), f"{package}/{name} would not be in the wheel"


def test_every_folder_with_code_is_a_package():
    for package in ("ramet", "ramet_papers"):
        for path in (ROOT / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} would not be in the wheel"


def test_the_claims_of_the_package_are_those_of_the_repository():
    assert json.loads((ROOT / "ramet_papers" / "claims.json").read_text()) == json.loads(
        (ROOT / "results" / "claims.json").read_text()
    )


def test_the_source_distribution_holds_what_its_tests_read():
    words = (ROOT / "MANIFEST.in").read_text().split()
    folders = ("tests", "docs", "benchmarks", "campaigns", "results", ".ci", ".github")
    for name in (*folders, "constraints.txt", "constraints-oldest.txt", "Makefile"):
        assert name in words and (ROOT / name).exists()


def test_the_workflow_runs_what_a_change_must_pass():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"run: .*\.ci/run", workflow)
    assert "make package" in (ROOT / ".ci" / "run").read_text()
