"""The reference: a page for each sub-package with every name of its ``__all__``, written from the docstrings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import ramet


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


def page_of(package: str, names: list[str]) -> str:
    """The page of a package, in reStructuredText."""
    module = importlib.import_module(package)
    text = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:", ""]
    for name in names:
        text += [name, "-" * len(name), "", *_directive(package, name, getattr(module, name)), ""]
    return "\n".join(text)


def _directive(package: str, name: str, value: object) -> list[str]:
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return [f".. {kind}:: {package}.{name}", "   :members:"]
    if inspect.isroutine(value):
        return [f".. autofunction:: {package}.{name}"]
    return [f".. autodata:: {package}.{name}", "   :no-value:"]


def write_pages(app: Sphinx) -> None:
    """Write the pages into docs/reference, where git does not look; what has not changed is not read again."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    pages = {f"{package}.rst": page_of(package, names) for package, names in public_names().items()}
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before any is read."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
