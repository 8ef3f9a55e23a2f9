"""Imports point downward only, and parts on one line do not import each other: the picture of docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = [
    ["cli"],
    ["jobs"],
    ["searching", "continual"],
    ["ranking", "growth", "integrations"],
    ["spaces", "sharing", "guards", "data"],
    ["exporting", "tracing"],
    ["costs"],
    ["training", "execution", "reports"],
    # The ground: these may import each other, because each is a leaf or nearly one.
    ["registry", "runs", "fields", "params", "seeding", "progress", "errors"],
]
GROUND = set(LAYERS[-1])
HEIGHT = {part: height for height, line in enumerate(reversed(LAYERS)) for part in line}
ANYTHING = {"testing", "__init__", "__main__"}


def part_of(module: str) -> str | None:
    """The part of ramet that a module belongs to: ``ramet.spaces.base`` is of ``spaces``."""
    names = module.split(".")
    return names[1] if names[0] == "ramet" and len(names) > 1 else None


def imported_parts(code: str) -> set[str]:
    """The parts of ramet that a file imports, also inside functions and under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {part_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "ramet":
                found |= {alias.name for alias in node.names if alias.name in HEIGHT}
            elif node.module:
                found.add(part_of(node.module))
    return {part for part in found if part}


def is_allowed(importer: str, imported: str) -> bool:
    if importer == imported or importer in ANYTHING:
        return True
    if imported not in HEIGHT:  # ``testing``, or a part that has no place yet
        return False
    return HEIGHT[imported] < HEIGHT[importer] or {importer, imported} <= GROUND


FILES = sorted((ROOT / "ramet").rglob("*.py"))


def test_the_library_does_not_know_the_papers():
    """``ramet_papers`` stands on the library and is found through its entry point."""
    for path in FILES:
        names = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        assert not any((name or "").split(".")[0] == "ramet_papers" for name in names), path


def test_every_part_has_a_place():
    parts = {path.relative_to(ROOT / "ramet").parts[0].removesuffix(".py") for path in FILES}
    assert parts <= set(HEIGHT) | ANYTHING


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downward(path):
    importer = path.relative_to(ROOT / "ramet").parts[0].removesuffix(".py")
    for imported in imported_parts(path.read_text(encoding="utf-8")):
        assert is_allowed(importer, imported), f"{importer} must not import {imported}"


@pytest.mark.parametrize(
    ("importer", "code", "allowed"),
    [
        ("ranking", "from ramet.spaces import Space", True),
        ("spaces", "from ramet.ranking.metrics import ranks", False),
        ("guards", "def f():\n    import ramet.data.load", False),
        ("training", "from ramet import execution", False),
        ("runs", "from ramet.errors import RunError", True),
        ("errors", "from ramet.training import fit", False),
        ("training", "from ramet.testing import spaces", False),
        ("testing", "from ramet.ranking import Plan", True),
    ],
)
def test_upward_and_sideways_imports_are_caught(importer, code, allowed):
    assert all(is_allowed(importer, imported) for imported in imported_parts(code)) == allowed


def test_the_picture_shows_these_layers():
    picture = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    for line in LAYERS:
        for part in line:
            assert f"{part}/" in picture or f"{part}.py" in picture, f"docs/architecture.md does not show {part}"
