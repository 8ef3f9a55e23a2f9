"""Runs side by side: figures in their places, and only what differs of what was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_runs import write_search

from ramet.cli.main import main
from ramet.errors import ConfigError
from ramet.growth.budget import Budget
from ramet.jobs.comparison import compare
from ramet.jobs.grow import GrowJob
from ramet.jobs.grow.result import GrowResult, MethodFigures, SizeFigures, StepFigures
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
    assert [row[:1] + row[2:4] + row[5:] for row in compare(runs).summary().rows] == [
        ["first/run", "validation error", "lowest", "b"],
        ["second/run", "validation error", "lowest", "c"],
    ]


def test_of_different_jobs_only_settings_that_all_have_are_said(runs, tmp_path):
    grown = tmp_path / "grown"
    sizes = SizeFigures(neurons=3, params=99, flops=99.0)
    steps = [StepFigures(number=0, sizes=sizes, score=0.7)]
    method = MethodFigures(
        stopped="done", steps=steps, params=99, flops=99.0, neurons=3, validation=0.7, test=0.6, layers=[],
        network="n", not_exported="",
    )  # fmt: skip
    result = GrowResult(
        network="mlp", data_name="digits", data="0", seed=7, budget=Budget.parse("params=1k"), layers=[], refusals=[],
        methods={"firefly": method},
    )  # fmt: skip
    with Run.create(grown, "grow", GrowJob(seed=7).to_json()) as run:
        run.records.append("result", **result.to_json())
    found = compare([runs[0], grown])
    told = {row[0]: row[1:] for row in found.differences().rows}
    assert told["seed"] == ["1", "7"] and "kind" not in told and "space" not in told and "network" not in told
    assert all(None not in values for values in told.values())
    assert "only some of the jobs" in found.differences().caption and "not one scale" in found.summary().caption
    assert found.summary().rows[1][2:5] == ["validation accuracy", "highest", "70.0 %"]


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
