"""The table of children in a ranking's result and report, and no folder of this machine in either."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

import ramet
from ramet.cli.main import main
from ramet.costs import count_flops, count_parameters
from ramet.data import load
from ramet.jobs.rank import choosing, report
from ramet.jobs.rank.result import Interval, RankResult

FILE = """
from torch import nn
from ramet.spaces import Choice

def network(in_channels, num_classes):
    options = {f"{size}": nn.Conv2d(in_channels, 4, size, padding=size // 2) for size in (1, 3, 5)}
    return nn.Sequential(Choice(options), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, num_classes))
"""
OPTIONS = ["--train-size", "96", "--eval-size", "48", "--epochs", "1", "--instances", "2", "--last-steps", "2"]
OPTIONS += ["--last-epochs", "1", "--fine-tune-steps", "0", "--truth-seeds", "1", "--json"]


@pytest.fixture
def ranked(tmp_path, monkeypatch, capsys):
    """A diagnosis of three children, its result and its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "three_children.py").write_text(FILE)
    main(["rank", "--space", "three_children.py:network", *OPTIONS, "--out", "run", "--truth-cache", "truth"])
    return json.loads(capsys.readouterr().out), tmp_path / "run"


def test_every_child_with_its_size_scores_and_truth(ranked):
    values, folder = ranked
    result = RankResult.load(folder)
    table = result.children_table()
    names = [column.name for column in table.described]
    assert names == ["child", "parameters", "multiply-adds", "last score", "averaged score", "truth", "true rank"]
    space = ramet.spaces.ModuleSpace(sys.modules["three_children"].network, in_channels=1)
    net = space.supernet(in_channels=1, num_classes=10)
    shape = tuple(load("digits").train.x.shape[1:])
    for row in table.rows:
        place = result.children.index(row[0])
        child = net.child(space.parse(row[0]))
        assert row[1:3] == [count_parameters(child), count_flops(child, shape)]
        last = [instance[place] for instance in values["accuracy"]["last"]]
        assert row[3] == pytest.approx(sum(last) / len(last)) and row[5] == values["truth"]["mean"][place]
    truth = values["truth"]["mean"]
    assert [row[5] for row in table.rows] == sorted(truth, reverse=True)
    assert [row[6] for row in table.rows] == [1 + sum(other > row[5] for other in truth) for row in table.rows]
    # The report has it, and nothing of where files lie.
    page = (folder / "report.html").read_text()
    assert "All 3 children" in page and "three_children.py:network" in page
    assert str(folder.parent) not in page and str(folder.parent) in (folder / "config.json").read_text()


def test_a_place_that_is_taken_says_how_to_go_on(ranked, capsys):
    _, folder = ranked
    with pytest.raises(SystemExit) as refused:
        main(["rank", "--space", "three_children.py:network", *OPTIONS, "--out", "run"])
    message = capsys.readouterr().err
    assert refused.value.code == 2
    assert "`ramet resume run` goes on with the run in it, --overwrite replaces it." in message
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "mine.txt").touch()
    with pytest.raises(SystemExit):
        main(["rank", *OPTIONS, "--out", "other"])
    assert "is not empty; name another one." in capsys.readouterr().err


def test_the_line_of_the_first_figure_is_the_best_trivial_ranking(ranked, monkeypatch):
    result = RankResult.load(ranked[1])
    lines = []
    monkeypatch.setattr(choosing, "dot_chart", lambda *cells, reference, **options: lines.append(reference))
    entry = result.correlation["parameters"]
    low, high = replace(entry.tau, value=0.2), replace(entry.tau, value=0.6)
    for best, worse, words in (("flops", "parameters", "multiply-adds"), ("parameters", "flops", "parameters")):
        sizes = {best: replace(entry, tau=high), worse: replace(entry, tau=low)}
        _, caption = choosing.correlation_chart(replace(result, correlation=result.correlation | sizes))
        assert f"right of the line, the number of {words}" in caption
    assert lines == [0.6, 0.6]


def test_children_have_short_names_with_a_legend(ranked):
    result = RankResult.load(ranked[1])
    long = [f"layer0={place},layer1=conv,layer2=pool" for place in range(3)]
    shown = replace(result, children=long, labels=["000", "100", "200"], legend=["1 (layer0): 0 a, 1 b, 2 c"])
    assert {row[0] for row in shown.children_table().rows} == {"000", "100", "200"}
    page = shown.page({}).html()
    assert "What the names of children mean" in page and "1 (layer0)" in page and long[0] not in page


def test_what_ranks_nothing_is_not_starred(ranked):
    result = RankResult.load(ranked[1])
    nothing = replace(result.correlation["last"], tau=Interval(value=float("nan"), low=float("nan"), high=float("nan")))
    table = replace(result, correlation=result.correlation | {"last": nothing}).table()
    (row,) = [cells for cells in table.rows if cells[0] == "shared weights, last evaluation"]
    assert set(row[2:]) == {None}
    line = next(line for line in table.to_text().splitlines() if line.startswith("shared weights, last evaluation"))
    assert "*" not in line


def test_a_page_of_many_children_shows_some_of_them(ranked, monkeypatch):
    """The best in the table, good and bad ones in the cloud; a short page has all, as before."""
    result = RankResult.load(ranked[1])
    assert "All 3 children" in report.page(result, {}).html()
    places = [0, 1, 2] * 10
    many = replace(
        result,
        children=[f"child-{number}" for number in range(30)],
        labels=[f"shown-{number}" for number in range(30)],
        sizes=None,
        disturbance=None,
        accuracy=replace(
            result.accuracy,
            **{
                name: [[row[p] for p in places] for row in getattr(result.accuracy, name)]
                for name in ("last", "averaged")
            },
        ),
        truth=replace(result.truth, mean=[number / 30 for number in range(30)]),
        ranks=replace(result.ranks, over_instances=[[1.0]] * 30, over_epochs=[[1.0]] * 30),
    )
    monkeypatch.setattr(report, "MOST_SHOWN", 10)
    page = report.page(many, {}).html()
    assert "The best 10 of 30 children" in page and "10 of the 30 children are drawn" in page
    table = report.children_table(many, most=10)
    assert [(row[0], row[-1]) for row in table.rows] == [(f"shown-{29 - rank}", 1 + rank) for rank in range(10)]
    drawn = report.spread(range(30), 10)
    assert drawn[:2] == [0, 1] and drawn[-3:] == [27, 28, 29] and len(set(drawn)) == 10
    not_shown = set(range(20)) - set(drawn)
    assert not_shown and not any(f"shown-{number}<" in page or f"shown-{number}\n" in page for number in not_shown)
