"""The table of the campaigns, and the page that it is written into."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from campaigns import page
from campaigns.__main__ import NAMES
from campaigns.findings import Finding, Report, as_table

FINDING = Finding(what="kills: a | b", tried=1200, lost=["a record is missing"], detail="3 runs")


def report(name: str, findings: list[Finding]) -> Report:
    return Report(name=name, findings=findings, seconds=3.2, is_long=False, seed=7)


def test_the_table_counts_what_was_tried_and_lost() -> None:
    lines = as_table([FINDING.cells(), Finding(what="cluster", skipped="no root").cells()]).splitlines()
    assert lines[2] == "| kills: a \\| b | 1,200 | 1 | 3 runs |"
    assert lines[3] == "| cluster | - | - | not tried: no root |"


def test_a_campaign_replaces_its_own_table_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\nother\n<!-- y: end -->\n")
    page.write_page(path, [report("x", [FINDING])])
    text = path.read_text()
    assert "old" not in text and "other" in text and text.startswith("a\n<!-- x: begin -->\n**1,200 tried, 1 lost**.")
    assert "python -m campaigns x --seed 7 --markdown" in text
    page.write_page(path, [replace(report("x", [FINDING]), only="kills: a")])
    assert "python -m campaigns x --only 'kills: a' --seed 7 --markdown" in path.read_text()
    # The same line again replaces the one that is there; another one comes after it.
    again = Finding(what=FINDING.what, tried=3, detail="x")
    page.write_page(path, [report("x", [again, Finding(what="kills: c", tried=4)])])
    text = path.read_text()
    assert "**7 tried, 0 lost**" in text and "1,200" not in text and text.count("kills: a") == 1
    # What was tried once is not forgotten because another machine cannot try it.
    page.write_page(path, [report("x", [Finding(what=name, skipped="no root") for name in (again.what, "kills: d")])])
    text = path.read_text()
    assert "**7 tried, 0 lost**" in text and "| kills: d | - | - | not tried: no root |" in text
    with pytest.raises(ValueError, match="one place for the campaign z"):
        page.write_page(path, [report("z", [])])


def test_a_short_campaign_takes_no_long_one_off_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!-- x: begin -->\n<!-- x: end -->\n")

    def after(tried: int, *lost: str) -> str:
        page.write_page(path, [report("x", [Finding(what="kills: a", tried=tried, lost=list(lost))])])
        return path.read_text()

    assert "| kills: a | 2,001 | 0 |" in after(2001)
    assert "| kills: a | 2,001 | 0 |" in after(1000)  # less than half as often
    assert "| kills: a | 1,001 | 0 |" in after(1001)
    assert "| kills: a | 3 | 1 |" in after(3, "a record is missing")
    assert "| kills: a | 2 | 0 |" in after(2)


def test_the_page_has_a_place_for_each() -> None:
    text = page.PAGE.read_text()
    for name in NAMES:
        assert text.count(f"<!-- {name}: begin -->") == text.count(f"<!-- {name}: end -->") == 1


def test_the_tests_that_the_page_names_are_there() -> None:
    """``tests/FILE.py::NAME``, and in the same line ``::NAME`` of the file before it."""
    root, count = page.PAGE.parents[1], 0
    for line in page.PAGE.read_text().splitlines():
        text = ""
        for path, name in re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", line):
            text = (root / path).read_text() if path else text
            assert f"def {name}(" in text, f"{path}::{name}"
            count += 1
    assert count > 20
