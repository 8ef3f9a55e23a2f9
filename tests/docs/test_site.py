"""What the site's own parts do: tables from records and pages, docstrings that hold norms, pages that load nothing."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import ramet.guards
from ramet_papers.rules import rule_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def part(monkeypatch):
    """Imports a part of the site by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    return importlib.import_module


def test_a_page_gets_the_table_of_another_page(part):
    text = part("figures").fill("before\n\n<!-- table: tools.md: | extra | -->\n\nafter")
    source = (ROOT / "docs" / "tools.md").read_text()
    rows = text.split("\n\n")[1]
    assert rows in source and rows.count("\n") > 5 and "`plots`" in rows
    assert text.startswith("before") and text.endswith("after")


def test_a_table_that_is_not_there_ends_the_build(part):
    with pytest.raises(LookupError, match="must have one table"):
        part("figures").fill("<!-- table: tools.md: | no such column | -->")


def test_figures_are_those_of_the_records(part):
    figures = part("figures")
    rows = json.loads((ROOT / "results" / "guards.json").read_text())["rows"]
    table = figures.fill("<!-- figures: guards -->").splitlines()
    assert len(table) == len(rows) + 2
    for row, line in zip(rows, table[2:], strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1] == row["guard"] and float(cells[2]) == pytest.approx(row["kept"], abs=0.051)
    claims = json.loads((ROOT / "results" / "claims.json").read_text())["claims"]
    counted = [[int(cell) for cell in line.split("|")[2:6]] for line in figures.claims().splitlines()[2:]]
    verdicts = ["former" if claim.get("rule", 1) < rule_of(claim["id"]) else claim["holds"] for claim in claims]
    totals = [verdicts.count(verdict) for verdict in (True, False, None, "former")]
    assert [sum(column) for column in zip(*counted, strict=True)] == totals and sum(totals) == len(claims)
    assert figures.failed_claims().count("\n") == verdicts.count(False) + 1


def test_every_table_that_a_page_asks_for_can_be_made(part):
    figures, asked = part("figures"), 0
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        asked += text.count("<!-- figures:") + text.count("<!-- table:")
        filled = figures.fill(text)
        assert "<!-- figures:" not in filled and "<!-- table:" not in filled
    assert asked > 10


def test_norms_and_stars_of_docstrings_are_no_marks(part):
    escaped = part("reference").escaped
    assert escaped("|x| and ``|y|``, [n, *shape]") == r"\|x\| and ``|y|``, [n, \*shape]"
    assert escaped("an *idea*, twice") == "an *idea*, twice"
    assert escaped("    >>> abs(a | b)") == "    >>> abs(a | b)"


def test_the_reference_has_every_public_name_once(part):
    reference = part("reference")
    names = reference.public_names()
    assert set(names["ramet.guards"]) == set(ramet.guards.__all__) and names["ramet"] == sorted(
        ["rank", "rank_scores", "search", "grow", "learn", "study"]
    )
    page = reference.page_of("ramet.guards", names["ramet.guards"], set())
    for name in ramet.guards.__all__:
        assert page.count(f":: ramet.guards.{name}\n") == 1
    assert "What keeps an update from disturbing" in page  # the docstring under a value


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://somewhere.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        "body { background: url('https://a.example/b.png') }",
    ],
)
def test_a_page_that_loads_from_elsewhere_is_caught(part, page):
    assert len(part("checks").fetched(page)) == 1


def test_a_link_that_a_reader_may_follow_is_none(part):
    assert part("checks").fetched('<a href="https://a.example">a</a><img src="plot.png"><link href="s.css">') == []


def test_no_page_has_a_name_that_sphinx_writes_itself(part):
    """`search.md` was read and checked like every page, and then overwritten by the results of the site's search."""
    overwritten = part("checks").overwritten
    assert overwritten(["index", "search", "tutorials/search", "genindex"]) == ["genindex", "search"]
    pages = [str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 50 and overwritten(pages) == []
