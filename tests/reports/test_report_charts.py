"""Formats, scales, colours and charts, without a browser."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_report import HOSTILE, LONG, NAN, all_charts, values

from ramet.errors import ConfigError
from ramet.reports import (
    Block,
    Chart,
    Edge,
    Estimate,
    GraphNode,
    Line,
    Points,
    Route,
    Stop,
    Table,
    bar_chart,
    box_chart,
    dot_chart,
    formats,
    graph_chart,
    heat_map,
    layer_chart,
    line_chart,
    path_chart,
    scatter_chart,
)
from ramet.reports.charts.chart import NARROW, WIDE
from ramet.reports.charts.palette import SERIES_DARK, SERIES_LIGHT, diverging
from ramet.reports.charts.scales import Scale, data_range, round_ticks, tick_texts

SVG = "{http://www.w3.org/2000/svg}"


def parse(chart: Chart, width: float = WIDE) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg(width))


def with_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


def titles(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}title")]


# Formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formats.number(-0.004), "0.00"),
        (formats.number(-0.006), "-0.01"),
        (formats.number(1234567.891, 1), "1,234,567.9"),
        (formats.percent(0.0), "0.0 %"),
        (formats.count(99_999), "99,999"),
        (formats.count(100_000), "100 k"),
        (formats.count(999_600), "1 M"),
        (formats.count(-2_500_000), "-2.5 M"),
        (formats.size(999.6), "1 kB"),
        (formats.size(1_500_000_000), "1.5 GB"),
        (formats.duration(0), "0 s"),
        (formats.duration(0.0005), "0 ms"),
        (formats.duration(0.9996), "1.0 s"),
        (formats.duration(59.7), "1 min 00 s"),
        (formats.duration(3599.8), "1 h 00 min"),
        (formats.duration(86_399), "1 d 0 h"),
        (formats.duration(-3), "-3.0 s"),
        (formats.significant(0.0), "0"),
        (formats.significant(-0.05), "-0.05"),
        (formats.significant(100.0), "100"),
        (formats.times(1.04), "1×"),
        (Estimate(0.5, None, 0.7).text(), "0.50"),
        (Estimate(NAN, 0.1, 0.2).text(), "– [0.10, 0.20]"),
        (Estimate(0.5, NAN, 0.7).text(), "0.50"),
        (Estimate(0.931, 0.92, 0.94).text(formats.percent), "93.1 % [92.0 %, 94.0 %]"),
        (formats.write(np.float32(0.25)), "0.25"),
        (formats.write(float("-inf")), "-∞"),
        (formats.write("as it is"), "as it is"),
    ],
)
def test_formats(text: str, expected: str) -> None:
    assert text == expected


# Scales


@settings(max_examples=300, deadline=None)
@given(
    st.floats(-1e9, 1e9),
    st.floats(1e-6, 1e9),
    st.integers(2, 10),
)
def test_ticks_are_round_and_inside(low: float, length: float, target: int) -> None:
    high = low + length
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return  # data_range never makes such a range
    ticks = round_ticks(low, high, target)
    assert 1 <= len(ticks) <= 2.6 * target + 1
    assert all(low - 1e-6 * length <= tick <= high + 1e-6 * length for tick in ticks)
    if len(ticks) > 1:
        step = (ticks[-1] - ticks[0]) / (len(ticks) - 1)
        leading = step / 10 ** math.floor(math.log10(step * 1.0001))
        assert min(abs(leading - nice) for nice in (1, 2, 5)) < 1e-3
        assert len(set(tick_texts(ticks))) == len(ticks) or step / max(map(abs, ticks)) < 1e-3


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(allow_infinity=True, allow_nan=True, width=32)), max_size=5))
def test_a_range_is_never_empty_and_holds_the_data(values: list[float | None]) -> None:
    for log in (False, True):
        low, high = data_range(values, log=log)
        assert low < high and math.isfinite(low) and math.isfinite(high)
        scale = Scale(low, high, 0, 100, log)
        shown = [value for value in values if scale.shows(value)]
        assert all(low <= value <= high for value in shown if value is not None)
        assert all(-1e-6 <= scale(value) <= 100 + 1e-6 for value in shown if value is not None)
        assert scale.ticks()


def test_a_rank_axis_begins_at_one_and_has_whole_ticks() -> None:
    root = parse(box_chart(["a", "b"], [[1, 2, 64], [3, 4, 5]], ranks=True))
    texts = [element.text for element in with_class(root, "tick")]
    assert texts[0] == "1" and all(text and "." not in text for text in texts)


# Colours


def luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("colours", "page"), [(SERIES_LIGHT, "#ffffff"), (SERIES_DARK, "#14171b")])
def test_series_stand_out_from_the_page(colours: tuple[str, ...], page: str) -> None:
    assert min(contrast(colour, page) for colour in colours) >= 3.0  # WCAG 2.1, 1.4.11
    assert len(set(colours)) == len(colours)


@pytest.mark.parametrize("dark", [False, True])
def test_the_signed_scale_grows_away_from_its_centre(dark: bool) -> None:
    colours = diverging(dark=dark)
    distance = [contrast(colour, colours[10]) for colour in colours]
    assert distance[:11] == sorted(distance[:11], reverse=True)
    assert distance[10:] == sorted(distance[10:])
    assert len(set(colours)) == 21


# Charts: every family against awkward input


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["child ", LONG, HOSTILE], ids=["short", "long", "hostile"])
@pytest.mark.parametrize(
    "kind", ["empty", "one", "equal", "zero", "gaps", "missing", "tiny", "huge", "close", "many", "64"]
)
def test_every_chart_survives(kind: str, name: str, width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # graphs are written out here; the picture is tested below
    for chart in all_charts(values(kind), name):
        root = ElementTree.fromstring(chart.svg(width))
        room, height = float(root.get("width", "")), float(root.get("height", ""))
        assert root.get("role") == "img" and root.get("aria-label")
        assert 350 <= room < 5000 and 20 < height < 5000
        assert not [element for element in root.iter() if element.tag == f"{SVG}script"]
        for element in root.iter():
            for key, value in element.attrib.items():
                if key in {"x", "y", "width", "height", "d", "cx", "cy", "r", "points", "transform"}:
                    assert not re.search("nan|inf|None|e[+-]?[0-9]", value), (key, value)
                if key in {"width", "height", "r"}:
                    assert float(value) >= 0
            if element.tag == f"{SVG}text":
                assert -1 <= float(element.get("x", "")) <= room + 1
                assert -1 <= float(element.get("y", "")) <= height + 1
                assert float(element.get("font-size", "12")) >= 11


@pytest.mark.parametrize("kind", ["empty", "missing"])
def test_a_chart_without_data_says_so(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    data = values(kind)
    for chart in [
        line_chart([Line("loss", list(range(len(data))), data)]),
        scatter_chart([Points("", data, data)]),
        box_chart(["a"] * len(data), [[value] for value in data]),
        heat_map(["a"] * len(data), ["b"], [[value] for value in data]),
        dot_chart(["a"] * len(data), [Estimate(value) for value in data]),
        bar_chart(["a"] * len(data), [Estimate(value) for value in data]),
        graph_chart([], []),
    ]:
        assert "nothing to draw" in chart.svg()


# Charts: what they show


def test_a_line_is_placed_by_its_scale_and_broken_where_a_value_is_missing() -> None:
    root = parse(line_chart([Line("loss", [0, 1, 2, 3, 4, 5], [0.0, 1.0, None, 0.5, 1.0, 0.0])]))
    first, second = (element.get("d", "") for element in with_class(root, "line"))
    pixels = [tuple(map(float, pair.split())) for part in (first, second) for pair in part[1:].split("L")]
    (x0, low), (x1, high), (x3, half), *_ = pixels
    assert half == pytest.approx((low + high) / 2, abs=0.1) and high < low
    assert x3 - x1 == pytest.approx(2 * (x1 - x0), abs=0.2)
    assert len(with_class(root, "marker")) == 5
    assert titles(root)[1] == "x: 1\nloss: 1" and len(titles(root)) == 5


def test_a_long_line_is_thinned_but_keeps_its_extremes() -> None:
    data = [math.sin(index / 50) for index in range(20_000)]
    data[7_777] = 9.0
    (line,) = with_class(parse(line_chart([Line("loss", range(len(data)), data)])), "line")
    heights = [float(pair.split()[1]) for pair in line.get("d", "")[1:].split("L")]
    assert len(heights) <= 801 and sum(height < min(heights) + 1 for height in heights) == 1


def test_a_band_spans_low_to_high() -> None:
    root = parse(line_chart([Line("tau", [0, 1], [0.5, 0.5], [0.0, 0.25], [1.0, 0.75])]))
    (band,) = with_class(root, "band")
    ys = [float(pair.split()[1]) for pair in band.get("d", "")[1:-1].split("L")]
    low, quarter, three_quarters, high = ys
    assert quarter - three_quarters == pytest.approx((low - high) / 2, abs=0.1)
    assert titles(root)[0].endswith("0.5 [0, 1]")


def test_a_box_shows_the_quartiles_and_what_lies_beyond() -> None:
    sample = [1, 2, 3, 4, 5, 6, 7, 8, 9, 30]
    root = parse(box_chart(["child"], [sample], truth=[4]))
    first, third = np.percentile(sample, [25, 75])
    assert titles(root) == [f"child\nmedian 5.5\nmiddle half {first} to {third}\nall 1 to 30\ntruth 4"]
    assert len(with_class(root, "beyond")) == 1


def test_ranks_have_the_first_at_the_top() -> None:
    def heights(ranks: bool) -> list[float]:
        root = parse(box_chart(["a", "b"], [[1], [9]], ranks=ranks))
        return [float(element.get("y", "")) for element in root.iter(f"{SVG}rect") if element.get("class") == "box"]

    assert heights(True)[0] < heights(True)[1]
    assert heights(False)[0] > heights(False)[1]


def test_a_heat_map_colours_by_distance_from_the_centre() -> None:
    matrix = [[-1.0, 0.0, 1.0], [0.5, None, -0.5]]
    root = parse(heat_map(["a", "b"], ["x", "y", "z"], matrix))
    (cells,) = [element for element in with_class(root, "cells") if "scale" in element.get("transform", "")]
    drawn = {path.get("class"): path.get("d") for path in cells}
    squares = {"l0": "0 0", "l10": "1 0", "l20": "2 0", "l15": "0 1", "l5": "2 1", "blank": "1 1"}
    assert drawn == {name: f"M{place}h1v1h-1z" for name, place in squares.items()}
    (area,) = with_class(root, "matrix")
    assert len(re.findall("[−0-9.–]+", area.get("data-values", ""))) == 6


def test_one_extreme_cell_does_not_bleach_a_large_heat_map() -> None:
    matrix = [[0.01 * (-1) ** (row + column) for column in range(20)] for row in range(20)]
    matrix[3][3] = 5.0
    root = parse(heat_map([str(i) for i in range(20)], [str(i) for i in range(20)], matrix))
    assert {"l0", "l20"} == {path.get("class") for path in with_class(root, "cells")[0]}
    assert any(element.text == "≥ 0.01" for element in root.iter(f"{SVG}text"))


def test_bars_start_at_zero_and_dots_need_not() -> None:
    estimates = [Estimate(10.0, 9.0, 11.0), Estimate(20.0), Estimate(-5.0)]
    bars = with_class(parse(bar_chart(["a", "b", "c"], estimates)), "bar")
    ten, twenty, below = (float(bar.get("width", "")) for bar in bars)
    assert twenty == pytest.approx(2 * ten, abs=0.2) and below == pytest.approx(ten / 2, abs=0.2)
    ticks = [element.text for element in with_class(parse(dot_chart(["a", "b"], estimates[:2])), "tick")]
    assert "0" not in ticks


def test_chosen_points_are_named_without_covering_each_other() -> None:
    x = [index / 10 for index in range(40)]
    names = [f"child {index}" for index in range(40)]
    root = parse(scatter_chart([Points("children", x, x, names, labelled=[3, 4, 5])]))
    named = [element for element in with_class(root, "halo") if element.text in names]
    assert [element.text for element in named] == ["child 3", "child 4", "child 5"]
    places = [(float(element.get("x", "")), float(element.get("y", ""))) for element in named]
    assert all(abs(a[0] - b[0]) > 40 or abs(a[1] - b[1]) > 12 for a, b in itertools.combinations(places, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Line("a", [1, 2], [1]),
        lambda: Line("a", [1], [1], low=[0]),
        lambda: Points("a", [1], []),
        lambda: Points("a", [1], [1], names=["one", "two"]),
        lambda: box_chart(["a"], []),
        lambda: box_chart(["a"], [[1]], truth=[]),
        lambda: heat_map(["a"], ["b", "c"], [[1]]),
        lambda: dot_chart(["a"], []),
        lambda: graph_chart([GraphNode("a"), GraphNode("a")], []),
        lambda: graph_chart([GraphNode("a")], [Edge("a", "b")]),
        lambda: Table(["a", "b"], [[1]]),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=r"need|must"):
        make()


# Graphs

CELL = [
    GraphNode("in", "input"),
    GraphNode("a", "conv 3×3", group=0),
    GraphNode("b", HOSTILE, marked=True),
    GraphNode("out", "sum"),
]
WIRES = [
    Edge("in", "a", group=0),
    Edge("in", "a", group=1),
    Edge("in", "b", "skip -> \\n <b>"),
    Edge("a", "out"),
    Edge("b", "out"),
    Edge("out", "in", "back"),
]


@pytest.mark.needs_program
def test_a_graph_is_drawn(find_program: Callable[[str], str]) -> None:
    find_program("dot")
    check_drawing()


@pytest.mark.parametrize("program", [None, "#!/bin/sh\nexit 3\n", "#!/bin/sh\necho graph 1 2 2\n", "not a program"])
def test_without_a_working_dot_a_small_graph_is_drawn(
    program: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program is not None:
        (tmp_path / "dot").write_text(program)
        (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check_drawing()


def check_drawing() -> None:
    """Boxes lie apart, and arrows begin and end at theirs."""
    for width in (WIDE, NARROW):
        root = parse(graph_chart(CELL, WIRES, groups=["task 1", "task 2"]), width)
        assert len(with_class(root, "node")) == 4 and len(with_class(root, "edge")) == 6
        boxes = [
            {key: float(element.get(key, "")) for key in ("x", "y", "width", "height")}
            for element in with_class(root, "node")
        ]
        for one, other in itertools.combinations(boxes, 2):
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert apart or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
        # The first two edges leave the input's box and end at a's.
        for edge in with_class(root, "edge")[:2]:
            numbers = [float(number) for number in re.findall(r"-?[0-9.]+", edge.get("d", ""))]
            for (x, y), box in (((numbers[0], numbers[1]), boxes[0]), ((numbers[-2], numbers[-1]), boxes[1])):
                assert box["x"] - 2 <= x <= box["x"] + box["width"] + 2
                assert box["y"] - 2 <= y <= box["y"] + box["height"] + 2


def test_without_dot_a_large_graph_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nodes = [*CELL, *(GraphNode(f"n{number}") for number in range(40))]
    root = parse(graph_chart(nodes, WIRES, groups=["task 1", "task 2"]))
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "Graphviz" in texts[0] and "input → conv 3×3 (task 1)" in texts and "conv 3×3 → sum" in texts


def test_values_of_a_chart_as_csv():
    chart = line_chart([Line("a, b", [1, 2], [0.5, None], low=[0.4, None], high=[0.6, None]), Line("c", [1], [3.0])])
    assert chart.csv() == 'line,x,y,low,high\n"a, b",1,0.5,0.4,0.6\n"a, b",2,,,\nc,1,3.0,,\n'
    assert scatter_chart([Points("p", [1], [2], names=["n"])], x_label="size").csv() == "kind,name,size,y\np,n,1,2\n"
    assert heat_map(["r"], ["c", "d"], [[1.5, None]], row_label="row").csv() == "row,c,d\nr,1.5,\n"
    assert dot_chart(["n"], [Estimate(1, 0, 2)]).csv() == "name,value,low,high\nn,1,0,2\n"
    assert box_chart(["n", "m"], [[1, 2], [3]], truth=[5, 6]).csv() == "name,value,truth\nn,1,5\nn,2,5\nm,3,6\n"
    assert (
        graph_chart([GraphNode("a", "A"), GraphNode("b")], [Edge("a", "b", "3x3")]).csv() == "from,to,label\nA,b,3x3\n"
    )
    assert layer_chart([Block("fc", "linear", None, 4)]).csv() == "layer,kind,before,after,note\nfc,linear,,4,\n"
    path = path_chart([Stop("k", "fc", 0, "8")], [Route("1", "first", ["k"])])
    assert path.csv() == "task,layer,copy,size\nfirst,fc,k,8\n"


def test_a_name_is_no_formula_in_a_spreadsheet():
    assert dot_chart(["=1+1", "-x"], [Estimate(-1), Estimate(2)]).csv().splitlines()[1:] == ["'=1+1,-1,,", "'-x,2,,"]
