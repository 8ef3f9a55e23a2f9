"""What a built site must be: nothing is loaded from elsewhere, and every public name has its place in the reference."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference import public_names

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# What a browser fetches by itself; a link that a reader may follow is not among it.
_FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"((?:https?:)?//[^\"]*)\"", re.IGNORECASE)
_LINKED = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_OUTSIDE = re.compile(r"(?:@import\s+|url\()\s*['\"]?((?:https?:)?//[^'\")]+)")
_IMAGE = re.compile(r"<img\b|<svg\b")


def fetched(page: str) -> list[str]:
    """The addresses of other hosts that a page or a style sheet loads."""
    sheets = [link for link in _LINKED.findall(page) if "canonical" not in link]
    links = [found for link in sheets for found in re.findall(r'href="((?:https?:)?//[^"]*)"', link)]
    return [*_FETCHED.findall(page), *links, *_OUTSIDE.findall(page)]


def missing_names(site: Path) -> list[str]:
    """Public names without an entry."""
    missing = []
    for package, names in public_names().items():
        page = (site / "reference" / f"{package}.html").read_text(encoding="utf-8")
        headings = {html.unescape(found) for found in re.findall(r"<h2>([^<]+)<a", page)}
        missing += [f"{package}.{name}" for name in names if name not in headings]
    return missing


def overwritten(pages: Iterable[str]) -> list[str]:
    """Pages whose file Sphinx writes once more, as the results of a search or an index: their text is nowhere."""
    return sorted({"search", "genindex", "py-modindex"}.intersection(pages))


def check(app: Sphinx, exception: Exception | None) -> None:
    """End the build where the site is not what it must be."""
    if exception is not None or app.builder.name != "html":
        return
    site, problems = Path(app.outdir), [f"{name} is a name of Sphinx's own" for name in overwritten(app.env.found_docs)]
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        text = path.read_text(encoding="utf-8")
        problems += [f"{path.relative_to(site)} loads {address}" for address in fetched(text)]
        if path.parent.name == "gallery" and not _IMAGE.search(text[text.find("<article") :]):
            problems.append(f"{path.relative_to(site)} has no plot")
    problems += [f"the reference lacks {name}" for name in missing_names(site)]
    if problems:
        raise RuntimeError("; ".join(problems))


def setup(app: Sphinx) -> dict[str, Any]:
    """Check when the site is built."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
