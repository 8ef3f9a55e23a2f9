"""Packages whose front doors open late."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import ramet

ROOT = Path(ramet.__file__).parent
LAZY = sorted(
    ".".join(("ramet", *path.parent.relative_to(ROOT).parts))
    for path in ROOT.rglob("__init__.py")
    if "lazy_front" in path.read_text()
)


def test_there_are_such_packages():
    assert "ramet.guards" in LAZY and "ramet.searching.strategies" in LAZY


@pytest.mark.parametrize("package", LAZY)
def test_every_name_opens(package):
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        module.no_such_thing  # noqa: B018


@pytest.mark.parametrize("package", LAZY)
def test_no_name_is_a_module_too(package):
    """Importing a sub-module sets an attribute of its package, which would then hide the function of that name."""
    module = importlib.import_module(package)
    assert not {each.name for each in pkgutil.iter_modules(module.__path__)} & set(module.__all__)
