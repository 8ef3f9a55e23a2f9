"""Runs side by side: figures in their places, and only what differs of what was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_runs import write_search

from ramet.cli.main import main
from ramet.errors import ConfigError
from ramet.jobs.comparison import compare
from ramet.runs import Run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [
        write_search(tmp_path / "first" / "run", {"a": 0.3, "b": 0.2}, seed=1),
        write_search(tmp_path / "second" / "run", {"b": 0.25, "c": 0.1}, seed=2),
    ]


def test_figures_stand_side_by_side(runs):
    found = compare(runs)
    (table,) = found.figures()
    assert [column.name for column in table.described] == ["architecture", "first/run", "second/run"]
    assert table.rows == [["a", 0.3, None], ["b", 0.2, 0.25], ["c", None, 0.1]]


def test_only_what_differs_is_said(runs):
    assert compare(runs).differences().rows == [["seed", "1", "2"]]


def test_the_best_of_each(runs):
    assert [row[0::2] for row in compare(runs).summary().rows] == [
        ["first/run", "validation error", "b"],
        ["second/run", "validation error", "c"],
    ]


def test_the_page_names_the_better_one(runs):
    html = compare(runs).page().html()
    assert "second/run has the lowest validation error: 10.0 %." in html


def test_the_command_and_its_page(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    main(["compare", *map(str, runs), "--report", str(page)])
    printed = capsys.readouterr().out
    assert "What was asked differently" in printed and f"Report: {page}" in printed and "<svg" in page.read_text()
    main(["compare", *map(str, runs), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["figures"]["validation error"][1] == {"architecture": "b", "first/run": 0.2, "second/run": 0.25}


def test_what_cannot_be_compared(runs, tmp_path):
    with pytest.raises(ConfigError, match="at least two runs, but got 1"):
        compare(runs[:1])
    with pytest.raises(ConfigError, match="twice"):
        compare([runs[0], runs[0].parent / "." / "run"])
    with Run.create(tmp_path / "half", "search", {"seed": 1}):
        pass
    with pytest.raises(ConfigError, match="must be finished"):
        compare([runs[0], tmp_path / "half"])
