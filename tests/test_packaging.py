"""What a package of ramet says of itself, and that everything which it needs travels with it."""

from __future__ import annotations

import importlib.util
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


def test_the_changelog_has_the_version_and_each_kind_of_change_once():
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", (ROOT / "CHANGELOG.md").read_text())
    versions = re.split(r"(?m)^## ", text)[1:]
    titles = [version.splitlines()[0] for version in versions]
    assert titles[0] == "[Unreleased]" or titles[0].startswith(f"[{ramet.__version__}]")
    released = [title for title in titles if title != "[Unreleased]"]
    assert re.fullmatch(rf"\[{re.escape(ramet.__version__)}\] - \d{{4}}-\d\d-\d\d", released[0])
    notes = (ROOT / "docs" / "releases.md").read_text()
    assert re.search(rf"(?m)^## {re.escape(ramet.__version__)}$", notes)
    for title, version in zip(titles, versions, strict=True):
        kinds = re.findall(r"(?m)^### (.+)$", version)
        assert len(kinds) == len(set(kinds)), f"{title} has {kinds}"


def test_lower_bounds_are_the_versions_that_are_tried():
    tried = dict(re.findall(r"(?m)^([\w-]+)==([\d.]+)$", (ROOT / "constraints-oldest.txt").read_text()))
    extras = PROJECT["project"]["optional-dependencies"]
    asked = dict(
        re.match(r"([\w-]+)>=([\d.]+)", each).groups() for each in PROJECT["project"]["dependencies"] + extras["images"]
    )
    assert tried.keys() == asked.keys()
    for name, version in tried.items():
        assert version.removesuffix(".0").removesuffix(".0") == asked[name].removesuffix(".0"), name


def test_the_papers_to_cite_are_those_that_are_explained():
    cited = re.findall(r'(?m)^ +title: "?(.+?)"?$', (ROOT / "CITATION.cff").read_text())
    pages = [path.read_text() for path in (ROOT / "docs" / "explanations").glob("*.md")]
    explained = [re.search(r"(?m)^\*([^*]+)\*", page)[1] for page in pages]
    assert len(cited) == len(explained) and all(any(long.startswith(own) for long in cited) for own in explained)


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


@pytest.fixture(scope="module")
def setup():
    spec = importlib.util.spec_from_file_location("ramet_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOME = "https://example.org/somebody/ramet"


@pytest.mark.parametrize("home", ["", HOME])
def test_links_of_the_long_description_work_without_the_repository(setup, home):
    readme = (ROOT / "README.md").read_text()
    text = setup.long_description(readme, home, "1.2.3")
    targets = [link[3] for link in setup.LINK.finditer(setup.CODE.sub("", text))]
    assert all(target.startswith(("http://", "https://")) for target in targets)
    paths = [target.removeprefix(f"{HOME}/").split("/", 2) for target in targets if target.startswith(HOME)]
    assert bool(paths) == bool(home)
    for kind, version, path in paths:
        assert kind in ("blob", "raw") and version == "v1.2.3" and (ROOT / path).exists(), path
    # Programs are as they were, and so are the words.
    assert setup.CODE.findall(text) == setup.CODE.findall(readme)
    assert "docs/ranking.md" in text and "From a folder of images to a network" in text


def test_a_link_keeps_its_words_and_a_picture_goes_with_its_address(setup):
    text = "See [`a.b[0]`](docs/a.md), [the web](https://example.org/x) and ![seen](docs/b.svg)."
    assert setup.long_description(text, "", "1") == "See `a.b[0]`, [the web](https://example.org/x) and ."
    assert f"![seen]({HOME}/raw/v1/docs/b.svg)" in setup.long_description(text, HOME, "1")


def test_the_address_stands_in_one_place(setup):
    home = PROJECT["tool"]["ramet"]["home"]
    assert home == "" or re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]+/\S+[^/]", home), (
        "an address, or none; no placeholder"
    )
    assert set(PROJECT["project"]["dynamic"]) == {"readme", "urls"}
    cited = re.search(r"^repository-code: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert (cited[1] if cited else "") == home
    assert setup.addresses("") == {}
    assert all(address.startswith(HOME) for address in setup.addresses(HOME).values())


def test_the_workflow_runs_what_a_change_must_pass():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"run: .*\.ci/run", workflow)
    assert "make package" in (ROOT / ".ci" / "run").read_text()
