"""Equations become MathML when the site is built: a browser shows them without a script and without a network."""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def mathml(latex: str, display: str = "inline") -> str:
    """An equation as MathML; a command that the converter does not know ends the build instead of being printed."""
    converted = convert(latex, display=display)
    if "\\" in converted:
        raise ValueError(f"an equation must use commands that become MathML, but got {latex!r}.")
    return converted


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """An equation inside a sentence."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def displayed(self: HTML5Translator, node: nodes.math_block) -> None:
    """An equation on a line of its own, with the number that the paper gave it: ``$$ ... $$ (8)``."""
    label = node.get("label")
    number = f'<span class="equation-number">({html.escape(label.rsplit("-", 1)[-1])})</span>' if label else ""
    self.body.append(f'<div class="equation">{mathml(node.astext(), "block")}{number}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, and choose it."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
