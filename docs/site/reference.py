"""The reference: a page for each sub-package with every name of its ``__all__``, written from the docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ramet

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LITERAL = re.compile(r"(``.+?``)")


def public_names() -> dict[str, list[str]]:
    """The names of ``__all__`` of ramet and of each sub-package that has some."""
    parts = sorted(part.name for part in pkgutil.iter_modules(ramet.__path__) if part.ispkg)
    packages = ["ramet", *(f"ramet.{part}" for part in parts if part != "cli")]  # commands have their own help
    names: dict[str, list[str]] = {}
    for package in packages:
        listed = getattr(importlib.import_module(package), "__all__", [])
        # What is itself a sub-package has a page of its own.
        own = [name for name in listed if f"{package}.{name}" not in packages and name != "__version__"]
        if own:
            names[package] = sorted(own, key=str.casefold)
    return names


def escaped(line: str) -> str:
    """A line of a docstring whose bars are norms and whose lonely star is Python's: neither is a mark here."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = _LITERAL.split(line)
    words = "".join(part for part in parts if not part.startswith("``"))
    marks = "|*" if words.count("*") % 2 else "|"
    return "".join(part if part.startswith("``") else re.sub(f"([{marks}])", r"\\\1", part) for part in parts)


def words_of(package: str, name: str) -> str:
    """The docstring under a value of a package, wherever in it that is defined."""
    folder = Path(str(importlib.import_module(package).__file__)).parent
    for path in sorted(folder.rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, follower in pairwise(body):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            is_named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if is_named and isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant):
                return inspect.cleandoc(str(follower.value.value))
    raise LookupError(f"{package}.{name} is public and must have a docstring under it.")


def page_of(package: str, names: list[str], seen: set[int]) -> str:
    """The page of a package, in reStructuredText; what another page has described already is not indexed again."""
    module = importlib.import_module(package)
    text = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:", ""]
    for name in names:
        text += [name, "-" * len(name), "", *_entry(package, name, getattr(module, name), seen), ""]
    return "\n".join(text)


def _entry(package: str, name: str, value: object, seen: set[int]) -> list[str]:
    again = ["   :no-index:"] if id(value) in seen else []
    seen.add(id(value))
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return [f".. {kind}:: {package}.{name}", "   :members:", *again]
    if inspect.isroutine(value):
        return [f".. autofunction:: {package}.{name}", *again]
    if inspect.ismodule(value):
        return [f".. automodule:: {package}.{name}", "   :members:", *again]
    if again:  # a second name for the same value
        return [
            f".. py:data:: {package}.{name}",
            "",
            "   Another name for a value that stands above or on another page.",
        ]
    words = [f"   {escaped(line)}" for line in words_of(package, name).splitlines()]
    return [f".. py:data:: {package}.{name}", "", *words]


def write_pages(app: Sphinx) -> None:
    """Write the pages into docs/reference, where git does not look; what has not changed is not read again."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    seen: set[int] = set()
    pages = {f"{package}.rst": page_of(package, names, seen) for package, names in public_names().items()}
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _escape(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    lines[:] = [escaped(line) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before any is read."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", _escape)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
