"""Front doors of packages that open late: ``import ramet.guards`` does not wait for torch, its first use does.

A package's ``__init__`` lists what it offers in ``__all__`` and says where it lies under ``if TYPE_CHECKING:``, which
type checkers read, and so does this module: no name is written a third time.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def lazy_front(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: imports what is asked for, sub-modules too, from where the package says."""

    @cache
    def places() -> dict[str, tuple[str, str]]:
        module = sys.modules[package]
        spec = module.__spec__
        assert spec is not None and spec.loader is not None
        source: str = spec.loader.get_source(package)  # type: ignore[attr-defined]
        return _places(source)

    def get(name: str) -> Any:
        if not name.startswith("__") and name in places():
            place, own_name = places()[name]
            value = getattr(importlib.import_module(place), own_name)
        elif not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}") is not None:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get


def _places(source: str) -> dict[str, tuple[str, str]]:
    r"""For each name that is imported under ``if TYPE_CHECKING:``, its module and its name there.

    >>> _places("if TYPE_CHECKING:\n    from ramet.costs import count_flops as flops")
    {'flops': ('ramet.costs', 'count_flops')}
    """
    found: dict[str, tuple[str, str]] = {}
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for node in ast.walk(block):
                if isinstance(node, ast.ImportFrom) and node.module:
                    found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found
