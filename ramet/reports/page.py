"""One self-contained page: a verdict in plain words, key numbers, tables, charts, prose, and details to unfold."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ramet.errors import RunError
from ramet.reports.charts.chart import WIDE, Chart
from ramet.reports.charts.palette import style_classes, style_variables
from ramet.reports.charts.svg import clean
from ramet.reports.formats import Estimate, Format
from ramet.reports.tables import Cell, Column, Table
from ramet.runs.atomic import write_atomically
from ramet.runs.encoding import JSON

Tone: TypeAlias = Literal["good", "caution", "bad", "neutral"]

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class KeyNumber:
    """One of the few numbers that a reader should leave with: its name, its value, and what it means in a few words."""

    name: str
    value: Cell
    note: str = ""
    form: Format | None = None

    @property
    def figure(self) -> str:
        """The value as it is written."""
        value = self.value.value if isinstance(self.value, Estimate) else self.value
        return Column(self.name, self.form).text(value).replace("-", "−")

    @property
    def interval(self) -> str:
        """The interval as it is written, or nothing."""
        return self.value.interval_text(self.form).replace("-", "−") if isinstance(self.value, Estimate) else ""


@dataclass
class Page:
    """A report, of which run, which data and when, that grows from top to bottom and is then written to one file.

    >>> page = Page("How far can this ranking be trusted?", "cells64 on digits")
    >>> page.verdict("Enough to prune, not enough to pick a winner.", tone="caution")
    >>> page.section("Correlation with the truth")
    >>> page.prose("Averaging the last **64** evaluations helps.")
    >>> "<h2" in page.html()
    True
    """

    title: str
    subtitle: str = ""
    _blocks: list[dict[str, object]] = field(default_factory=list, repr=False)

    def verdict(self, words: str, because: str = "", *, tone: Tone = "neutral", heading: str = "In short") -> None:
        """The answer in plain words, one sentence, in a box under a heading.

        What it follows from is in the markup of ``prose``. The tone is how the box looks; the words must say it too.
        """
        self._add("verdict", words=words, because=prose_markup(because), tone=tone, heading=heading)

    def numbers(self, *numbers: KeyNumber) -> None:
        """A row of key numbers."""
        self._add("numbers", numbers=numbers)

    def section(self, heading: str) -> None:
        """Begins a section, which the list of contents names."""
        words = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")[:40]
        number = sum(block["kind"] == "section" for block in self._blocks) + 1
        self._add("section", heading=heading, anchor=f"section-{number}-{words}".rstrip("-"))

    def prose(self, text: str) -> None:
        """Paragraphs, separated by empty lines, and a little markup.

        Lines that begin with a hyphen are a list; two stars around words make them strong, backquotes make them code.
        """
        self._add("prose", text=prose_markup(text))

    def code(self, text: str) -> None:
        """Commands or a program, as they are."""
        self._add("code", text=text.rstrip())

    def table(self, table: Table) -> None:
        """A table with its title and caption."""
        self._add("table", table=table)

    def chart(self, chart: Chart, caption: str, *, title: str = "") -> None:
        """A chart; the caption says what to see in it."""
        self._add("chart", drawing=chart.markup(), caption=prose_markup(caption), title=title, csv=chart.csv())

    def details(self, summary: str, content: Mapping[str, JSON] | Table | str) -> None:
        """Something to unfold: a configuration, an environment, a long table, a text as it is."""
        if isinstance(content, Mapping):
            self._add("details", summary=summary, pairs=flatten(content), table=None, text=None)
        elif isinstance(content, Table):
            self._add("details", summary=summary, pairs=None, table=content, text=None)
        else:
            self._add("details", summary=summary, pairs=None, table=None, text=content)

    def html(self) -> str:
        """The whole document."""
        style, script = _style(), _script()
        sections = [block for block in self._blocks if block["kind"] == "section"]
        document = (
            _templates()
            .get_template("page.html")
            .render(
                title=self.title,
                subtitle=self.subtitle,
                blocks=self._blocks,
                contents=sections if len(sections) > 2 else [],
                style=Markup(style),  # nosec B704
                script=Markup(script),  # nosec B704
                policy=_policy(style, script),
            )
        )
        return clean(document)

    def write(self, path: str | Path) -> Path:
        """Writes the document in one step: a reader sees the old file or the new one, never a half."""
        path = Path(path)
        try:
            write_atomically(path, self.html().encode())
        except RunError as error:
            reason = str(error).removeprefix(f"cannot write {path}: ")
            raise RunError(f"The report {path} could not be written: {reason}") from error
        return path

    def _add(self, kind: str, **content: object) -> None:
        self._blocks.append({"kind": kind, **content})


def prose_markup(text: str) -> Markup:
    r"""Text with a little markup (see ``Page.prose``) as HTML; everything else is escaped.

    >>> str(prose_markup("a < b\n- **one**"))
    '<p>a &lt; b</p><ul><li><strong>one</strong></li></ul>'
    """
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines: list[str] = []
        items: list[str] = []
        for line in block.splitlines():
            if line.strip().startswith("- "):
                items.append(line.strip()[2:])
            elif items and line.strip():
                items[-1] += f" {line.strip()}"
            else:
                lines.append(line.strip())
        if any(lines):
            parts.append(f"<p>{_inline(' '.join(lines).strip())}</p>")
        if items:
            parts.append(f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>")
    return Markup("".join(parts))  # nosec B704


def flatten(mapping: Mapping[str, JSON], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as pairs of a dotted name and a text.

    >>> flatten({"seed": 0, "training": {"epochs": 10, "sizes": [1, 2]}})
    [('seed', '0'), ('training.epochs', '10'), ('training.sizes', '[1, 2]')]
    """
    pairs: list[tuple[str, str]] = []
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            pairs += flatten(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            pairs.append((f"{prefix}{key}", text))
    return pairs


def _inline(text: str) -> str:
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked)


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _style() -> str:
    style = (_TEMPLATES / "page.css").read_text("utf-8")
    return (
        style.replace("/*light palette*/", style_variables(dark=False))
        .replace("/*dark palette*/", style_variables(dark=True))
        .replace("/*palette classes*/", style_classes())
    )


@cache
def _script() -> str:
    return (_TEMPLATES / "page.js").read_text("utf-8")


def picture(chart: Chart, width: float = WIDE) -> str:
    """A chart as an SVG file of its own, which brings the page's colours along."""
    element, style = str(chart.svg(width)), _style()
    start, end = style.index("\n.chart {"), style.index("@media (hover: hover)")
    variables = style[: style.index("*, *::before")]
    ground = "svg { background: var(--page); font-family: system-ui, sans-serif; }"
    opening, rest = element.split(">", 1)
    return f"{opening}><style>{variables}{ground}{style[start:end]}</style>{rest}\n"


def _policy(style: str, script: str) -> str:
    """A content security policy that allows this page's own style and script, and nothing else from anywhere."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
