"""Figures of a table with matplotlib: the values that were in it, in its order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sample_runs import search_result

from ramet.errors import ConfigError, MissingExtraError
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.reports.plots import plot_table

TABLE = Table(
    ["ranking", "note", Column("correlation", best="highest"), Column("kept", best="highest")],
    [["a", "x", Estimate(0.5, 0.4, 0.6), 0.2], ["b", "y", None, 0.3], ["c", "z", 0.7, 0.1]],
)


def points(axes):
    """The dots by name: what stands beside the axis at the height of each."""
    (dots,) = [line for line in axes.lines if line.get_marker() == "o"]
    names = dict(zip(axes.get_yticks(), [label.get_text() for label in axes.get_yticklabels()], strict=True))
    return [(names[y], x) for x, y in zip(*dots.get_data(), strict=True)]


def test_the_first_column_that_is_compared():
    pytest.importorskip("matplotlib")
    axes = plot_table(TABLE)
    assert points(axes) == [("a", 0.5), ("c", 0.7)] and axes.get_xlabel() == "correlation"
    assert [list(line.get_xdata()) for line in axes.lines if line.get_marker() != "o"] == [[0.4, 0.6]]


def test_another_column_on_given_axes():
    figures = pytest.importorskip("matplotlib.figure")
    axes = figures.Figure().subplots()
    assert plot_table(TABLE, "kept", axes) is axes and points(axes) == [("a", 0.2), ("b", 0.3), ("c", 0.1)]


def test_a_result_draws_itself():
    pytest.importorskip("matplotlib")
    axes = search_result({"a": 0.3, "b": 0.2}).plot()
    assert points(axes) == [("a", 0.3), ("b", 0.2)] and axes.get_xlabel() == "validation error"


def test_it_is_written_as_the_table_is_and_has_room_at_its_ends():
    pytest.importorskip("matplotlib")
    axes = plot_table(Table(["run", Column("accuracy", percent, best="highest")], [["a", 0.5], ["b", 0.75]]))
    assert axes.xaxis.get_major_formatter()(0.5) == "50.0 %"
    low, high = axes.get_ylim()
    assert low < 0.75 and high > 2.25, "no dot lies on the frame"


def test_a_figure_is_shown_where_figures_are():
    pytest.importorskip("matplotlib")
    program = (
        "import sys; from ramet.reports import Column, Table; from ramet.reports.plots import plot_table\n"
        "table = Table(['run', Column('accuracy', best='highest')], [['a', 0.5]])\n"
        "plot_table(table); assert 'matplotlib.pyplot' not in sys.modules\n"
        "from matplotlib import pyplot\n"
        "axes = plot_table(table); assert pyplot.get_fignums() == [axes.figure.number]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"MPLBACKEND": "Agg"})


def test_what_cannot_be_drawn():
    pytest.importorskip("matplotlib")
    with pytest.raises(ConfigError, match="column must be one of ranking, note"):
        plot_table(TABLE, "nothing")
    with pytest.raises(ConfigError, match="has none"):
        plot_table(TABLE, "note")
    with pytest.raises(ConfigError, match="name one"):
        plot_table(Table(["a", "b"], [["x", 1]]))


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.ticker", None)
    with pytest.raises(MissingExtraError, match=r"ramet\[plots\]"):
        plot_table(TABLE)
