"""Tables and the page, without a browser."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_report import NAN, hostile_page, sample_report

from ramet.errors import RunError
from ramet.reports import (
    Column,
    Estimate,
    Page,
    Table,
    formats,
)
from ramet.reports.page import prose_markup

# Tables


def table() -> Table:
    return Table(
        ["ranking", Column("tau", best="highest"), Column("rank", best="lowest"), Column("cost", formats.duration)],
        [
            ["shared [bold]", Estimate(-0.1, -0.2, 0.0), np.int64(7), 0.5],
            ["tuned", Estimate(0.68, 0.6, 0.75), 2, None],
            ["count", 0.5, 2, NAN],
        ],
        title="Rankings",
        caption="Higher is better.",
    )


def test_a_table_as_text() -> None:
    assert table().to_text().splitlines() == [
        "Rankings",
        "ranking        tau                    rank    cost",
        "-------------  ---------------------  ----  ------",
        "shared [bold]  -0.10 [-0.20, 0.00]     7    500 ms",
        "tuned           0.68 [0.60, 0.75] *    2 *       –",
        "count           0.50                   2 *       –",
        "* the best of its column",
        "Higher is better.",
    ]


def test_a_table_as_json() -> None:
    rows = json.loads(json.dumps(table().to_json(), allow_nan=False))
    assert rows[0] == {
        "ranking": "shared [bold]",
        "tau": {"value": -0.1, "low": -0.2, "high": 0.0},
        "rank": 7,
        "cost": 0.5,
    }
    assert rows[2] == {"ranking": "count", "tau": 0.5, "rank": 2, "cost": None}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_is_drawn_on_a_terminal_and_plain_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    pipe, terminal = io.StringIO(), Terminal()
    table().print(pipe)
    table().print(terminal)
    assert pipe.getvalue() == table().to_text() + "\n"
    assert "\x1b[1;32m" in terminal.getvalue() and "─" in terminal.getvalue()
    shown = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue())
    for text in ("shared [bold]", "0.68 [0.60, 0.75] *", "500 ms", "Higher is better."):
        assert text in shown  # rich must not take brackets for its own markup


def test_a_pipe_that_knows_only_ascii_is_no_failure() -> None:
    raw = io.BytesIO()
    pipe = io.TextIOWrapper(raw, encoding="ascii")
    table().print(pipe)
    pipe.flush()
    assert b"tuned" in raw.getvalue() and b"?" in raw.getvalue()


def test_an_empty_table_and_the_best_of_one() -> None:
    assert Table(["a", "b"], []).to_text() == "a  b\n-  -"
    assert not Table(["a", Column("b", best="highest")], [["x", 1.0], ["y", NAN]]).marks_best
    assert not Table(["a", Column("b", best="highest")], [["x", 1.0], ["y", 1.0]]).marks_best
    assert Table(["a", Column("b", best="highest")], [["x", 1.0], ["y", 1.0], ["z", 0.5]]).marks_best


class CountingRow(list[Any]):
    """Notes how often a cell of any row is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        CountingRow.looks += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("show", [Table.html_rows, Table.to_text, Table.to_terminal, Table.headline])
def test_a_row_is_looked_at_as_often_in_a_long_table_as_in_a_short_one(show: Callable[[Table], object]) -> None:
    columns = ["name", Column("tau", best="highest"), "rank"]
    looks = []
    for count in (40, 400):
        shown = Table(columns, [CountingRow([f"row {place}", Estimate(place / 7), place]) for place in range(count)])
        CountingRow.looks = 0
        show(shown)
        looks.append(CountingRow.looks)
    assert looks[0] >= 40 and looks[1] <= 10 * looks[0]


# The page


class Reader(HTMLParser):
    """Collects what a page is made of, and checks that its elements are closed in order."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, str] = {}
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.elements if name in attrs]


def test_the_sample_page_is_sound() -> None:
    html = sample_report().html()
    page = Reader(html)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids)) > 5
    assert all(target in {f"#{name}" for name in ids} | {"data:,"} for target in page.attributes("href"))
    assert not page.attributes("src") and not page.attributes("style")
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    without_namespace = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|@import|url\(|//[a-z]+\.[a-z]", without_namespace)
    assert len(html) < 1_000_000
    headings = [tag for tag, _ in page.elements if tag in {"h1", "h2"}]
    assert headings.count("h1") == 1 and headings.count("h2") == 6
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        ElementTree.fromstring(svg)


def test_the_policy_allows_exactly_the_pages_own_style_and_script() -> None:
    page = Reader(sample_report().html())
    policies = [
        attrs["content"] or "" for _, attrs in page.elements if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    (policy,) = policies
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.texts[kind].encode()).digest()).decode()
        assert allowed[f"{kind}-src"] == f"'sha256-{digest}'"
        assert [tag for tag, _ in page.elements].count(kind) == 1
    assert allowed["default-src"] == "'none'" and "unsafe" not in policy


def test_names_cannot_become_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    html = hostile_page().html()
    html.encode()  # lone surrogates are gone
    page = Reader(html)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert "\x00" not in html and "<script>window" not in html
    assert html.count("&lt;script&gt;") > 50
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("", ""),
        ("one\ntwo\n\nthree", "<p>one two</p><p>three</p>"),
        ("- a\n- b\n  more", "<ul><li>a</li><li>b more</li></ul>"),
        ("`<b>` and **x & y**", "<p><code>&lt;b&gt;</code> and <strong>x &amp; y</strong></p>"),
        ("2 ** 3 and a`b", "<p>2 ** 3 and a`b</p>"),
    ],
)
def test_prose(text: str, html: str) -> None:
    assert prose_markup(text) == html


def test_a_table_on_the_page_marks_the_best_and_uses_real_minus_signs() -> None:
    page = Page("t")
    page.table(table())
    html = page.html()
    assert html.count('<span class="star">★</span>') == 3
    assert "−0.10" in html and "[−0.20, 0.00]" in html and "-0.10" not in html


def test_writing_replaces_the_file_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with path.open() as reader:
        assert Page("new").write(path) == path
        assert reader.read() == "old"  # whoever reads the old file keeps it whole
    assert "<h1>new</h1>" in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and os.listdir(tmp_path) == ["report.html"]


def test_a_report_that_cannot_be_written_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunError, match="could not be written: No such file"):
        Page("t").write(tmp_path / "missing" / "report.html")
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        Page("t").write(path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["report.html"]


def test_the_same_report_is_the_same_file() -> None:
    assert sample_report().html() == sample_report().html()
