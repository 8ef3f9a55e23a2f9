"""The report of `ramet learn`: every figure from the records, maps in which nothing overlaps, no models."""

from __future__ import annotations

import itertools
import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_report import HOSTILE, LONG
from test_reports_browser import Visit, assert_readable, browser, visit  # noqa: F401 - fixtures

from ramet.errors import ConfigError
from ramet.fields import from_json
from ramet.jobs.learn.networks import layer_names, network_map, task_signs, units_table
from ramet.jobs.learn.report import by_task
from ramet.jobs.learn.result import LayerMap, LearnResult, MethodOutcome, UnitUses
from ramet.reports.charts import Chart, Route, Stop, heat_map, path_chart
from ramet.reports.charts.chart import NARROW, WIDE
from ramet.reports.charts.paths import depths, num_crossings, order_rows
from ramet.runs.encoding import Json

SVG = "{http://www.w3.org/2000/svg}"
LAYERS = ["layer1", "layer2"]


def spread(value: float | None) -> Json:
    return {"mean": value, "deviation": None, "values": [value]}


def entry(tasks: list[str], accuracy: float, **more: Any) -> Json:
    number = len(tasks)
    figures = {
        "average_accuracy": accuracy, "backward_transfer": -0.01, "forgetting": 0.01, "forward_transfer": None,
        "average_gain": accuracy - 0.9, "paper_gain": 0.1, "parameters": 1000.0 * number,
        "stored_bytes": 4000.0 * number, "flops": 900.0, "seconds": 3.0,
    }  # fmt: skip
    return {
        "figures": {key: spread(value) for key, value in figures.items()},
        "matrix": [[accuracy - 0.01 * (i - j) if j <= i else None for j in range(number)] for i in range(number)],
        "growth": [1000.0 * (i + 1) for i in range(number)], "stored": [4000.0 * (i + 1) for i in range(number)],
        "notes": [{} for _ in tasks], "explanation": [], "graph": None, "units": None, "file": "networks/x",
        **more,
    }  # fmt: skip


def bound(tasks: list[str], seed: int = 0) -> Json:
    """A method whose tasks are bound at random and share random layers."""
    chance = random.Random(seed)
    nodes, paths, notes = [], {}, []
    for place, task in enumerate(tasks):
        relative = chance.randrange(place) if place else None
        own = [layer for layer in range(len(LAYERS)) if relative is None or chance.random() < 0.5]
        keys = []
        for layer, name in enumerate([*LAYERS, "head"]):
            if relative is None or layer in own or name == "head":
                nodes.append({"id": f"n{len(nodes)}", "layer": name, "task": task, "parameters": 100 + layer})
                keys.append(nodes[-1]["id"])
            else:
                keys.append(paths[tasks[relative]][layer])
        paths[task] = keys
        conflicts = [
            {"task": other, "total": 1.0 + chance.random(), "layers": [chance.random() for _ in LAYERS],
             "partners": [0, 1]}
            for other in tasks[:place]
        ]  # fmt: skip
        decision = None
        if relative is not None:
            decision = {"task": task, "bound_to": tasks[relative], "delta": 0.5, "expanded": own,
                        "conflicts": conflicts, "distribution": [0.5, 0.5], "reason": "least conflict"}  # fmt: skip
        notes.append({"decision": decision})
    return {"graph": {"nodes": nodes, "paths": paths}, "notes": notes, "explanation": [f"{tasks[0]!r} came first."]}


def owned(tasks: list[str]) -> Json:
    uses = {task: [[3 + layer] * (place + 1) for layer in range(2)] for place, task in enumerate(tasks)}
    return {"units": {"unit": "neurons", "layers": LAYERS, "uses": uses}}


def result(tasks: list[str]) -> Json:
    methods = {
        "individual": entry(tasks, 0.9),
        "bind-and-grow": entry(tasks, 0.92, **bound(tasks)),
        "firefly": entry(tasks, 0.91, **owned(tasks)),
    }
    return {"stream": "permuted-digits", "tasks": tasks, "seeds": [0], "methods": methods}


def learned(made: Json) -> LearnResult:
    return LearnResult.from_json(made)


def drawn(graph: Json) -> LayerMap:
    return from_json(LayerMap, graph)


def names(number: int) -> list[str]:
    return [f"digits permutation {place}" for place in range(1, number + 1)]


def parse(chart: Chart, width: float = WIDE) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg(width))


def with_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


# Where things go


def test_a_stop_lies_behind_all_that_comes_before_it_and_heads_lie_at_the_end() -> None:
    assert depths([["a", "b", "c", "x"], ["a", "c", "y"], ["z"]]) == {"a": 0, "b": 1, "c": 2, "x": 3, "y": 3, "z": 3}
    with pytest.raises(ConfigError, match="in one order"):
        depths([["a", "b"], ["b", "a"]])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10_000))
def test_routes_through_one_stop_are_neighbours(number: int, depth: int, seed: int) -> None:
    chance = random.Random(seed)
    columns = [{route: f"{column}-{chance.randrange(3)}" for route in range(number)} for column in range(depth)]
    order = order_rows(columns)
    for column, rows in zip(columns, order, strict=True):
        assert sorted(rows) == list(range(number))
        runs = [stop for stop, _ in itertools.groupby(column[route] for route in rows)]
        assert len(runs) == len(set(runs))
    # Never worse than stops sorted by the tasks that use them, which is where it begins.
    plain = []
    for column in columns:
        users = {stop: [route for route in column if column[route] == stop] for stop in column.values()}
        stops = sorted(users, key=lambda stop: (sum(users[stop]) / len(users[stop]), min(users[stop])))
        plain.append([route for stop in stops for route in users[stop]])
    assert num_crossings(order) <= num_crossings(plain)


def test_a_tree_of_tasks_has_no_crossings() -> None:
    columns = [
        dict.fromkeys(range(6), "root"),
        {0: "a", 1: "b", 2: "a", 3: "b", 4: "a", 5: "b"},
        {route: f"head {route}" for route in range(6)},
    ]
    order = order_rows(columns)
    assert num_crossings(order) == 0
    assert num_crossings([[0, 1, 2], [2, 1, 0]]) == 3  # a hand-made case: every pair crosses


# The map of lines


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("number", [1, 2, 5, 50])
def test_shared_layers_are_drawn_once_and_no_boxes_overlap(number: int, width: float) -> None:
    made = bound(names(number), seed=3)["graph"]
    root = parse(network_map(drawn(made), task_signs(names(number))), width)
    boxes = [
        [float(element.get(key, "")) for key in ("x", "y", "width", "height")] for element in with_class(root, "node")
    ]
    assert len(boxes) == len(made["nodes"])
    for one, other in itertools.combinations(boxes, 2):
        across = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
        assert across or one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
    lines = [group for group in with_class(root, "hit") if group.find(f"{SVG}path") is not None]
    assert len(lines) == number
    for place, line in enumerate(lines):
        # The task's number stands at both ends, so that it is told apart without its colour.
        texts = [text.text or "" for text in line.iter(f"{SVG}text")]
        assert texts[0].split(" ")[0] == texts[1] == str(place + 1)


def test_a_patch_gets_a_plus_sign_and_a_skipped_depth_no_box() -> None:
    stops = [Stop("a", "layer1", 0), Stop("b", "layer2", 0, "12"), Stop("x", "head", 0), Stop("y", "head", 1)]
    routes = [Route("1", "one", ["a", "b", "x"]), Route("2", "two", ["a", "y"], ["a"])]
    root = parse(path_chart(stops, routes))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts.count("+") == 1 and "1 · 12" in texts and len(with_class(root, "node")) == 4
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert "layer1, made for 1 one\nused by 1, 2" in titles
    assert "2 two shares layer1 of 1" in (root.get("aria-label") or "")
    with pytest.raises(ConfigError, match="is none"):
        path_chart(stops, [Route("1", "one", ["a", "gone"])])
    with pytest.raises(ConfigError, match="different keys"):
        path_chart([*stops, stops[0]], routes)
    assert "nothing to draw" in path_chart([], []).svg()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", [LONG, HOSTILE], ids=["long", "hostile"])
def test_a_map_survives_any_name(name: str, width: float) -> None:
    stops = [Stop(name, name, 0, name, name), Stop("x", name, 0)]
    root = parse(path_chart(stops, [Route("1", name, [name, "x"], [name])]), width)
    assert not list(root.iter(f"{SVG}script"))
    for text in root.iter(f"{SVG}text"):
        assert -1 <= float(text.get("x", "")) <= float(root.get("width", "")) + 1


# Heat maps


def test_a_span_fixes_the_scale_and_marks_are_frames() -> None:
    root = parse(heat_map(["a"], ["x", "y"], [[50.0, 75.0]], span=(50.0, 100.0), marked=[(0, 1)]))
    drawn = {path.get("class") for path in with_class(root, "cells")[0]}
    assert drawn == {"l10", "l15"}  # no colour, and half of it
    (frame,) = with_class(root, "frame")
    (area,) = with_class(root, "matrix")
    middle = float(area.get("x", "")) + float(area.get("width", "")) / 2
    assert float(frame.get("x", "")) > middle


def test_layers_are_named_where_all_tasks_have_the_same() -> None:
    made = bound(names(3))
    decisions = from_json(MethodOutcome, entry(names(3), 0.9, **made)).bound
    assert layer_names(decisions, drawn(made["graph"])) == LAYERS
    assert layer_names(decisions, None) == ["layer 1", "layer 2"]
    made["graph"]["nodes"][0]["layer"] = "other"
    made["graph"]["paths"][names(3)[1]] = ["n1", "n2"]
    assert layer_names(decisions, drawn(made["graph"])) == ["layer 1", "layer 2"]


# The page


def test_the_page_says_what_the_records_say() -> None:
    html = learned(result(names(4))).page({"seed": 0}).html()
    for text in ("The joint network", "Conflict of layers", "with every candidate", "Stored bytes", "came first"):
        assert text in html
    assert "bind-and-grow is the most accurate" in html and "2.0 points above" in html
    assert 'aria-label="Map of 4 tasks through' in html
    rows = units_table(from_json(UnitUses, owned(names(2))["units"]), task_signs(names(2))).rows
    assert [list(row) for row in rows] == [
        ["1 digits permutation 1", 3, 4, 7, 7, 1.0],
        ["2 digits permutation 2", 6, 8, 14, 7, 0.5],
    ]


def test_tasks_are_told_by_their_classes() -> None:
    tasks = ["my-images 0 1", "my-images 2 3"]
    made = result(tasks) | {"classes": [["cats", "dogs"], ["hens", "<owls>"]]}
    page = learned(made).page({}).html()
    assert "cats, dogs" in page and "hens, &lt;owls&gt;" in page and ">classes<" in page
    for classes in ([], [["0", "1"], ["2", "3"]], [["cats", "dogs"]] * 2):  # unknown, said by the names, all the same
        assert ">classes<" not in learned(made | {"classes": classes}).page({}).html()


def test_tasks_that_were_learned_before_have_other_signs() -> None:
    made = result(names(4))
    made["tasks"] = names(4)[2:]
    for other in ("individual", "firefly"):
        made["methods"][other] = entry(made["tasks"], 0.9)
    made["methods"]["bind-and-grow"] = entry(made["tasks"], 0.92, **bound(names(4)))
    html = learned(made).page({}).html()
    assert "E1, E2 and so on" in html and "E2 digits permutation 2" in html


def test_old_records_make_a_page_without_what_they_lack() -> None:
    made = result(names(3))
    for method in made["methods"].values():
        for key in ("stored", "graph", "units"):
            method.pop(key, None)
    html = learned(made).page({}).html()
    assert "Stored bytes" not in html and "The joint network" not in html and "Conflict of layers" in html


@pytest.mark.parametrize(
    ("more", "subject"),
    [
        ({"unmeasured": ["a", "b"]}, "The 2 tasks that onto knew before were"),
        ({"unmeasured": ["a"]}, "The one task that onto knew before was"),
        ({}, "Tasks that onto knew before were"),  # in records of earlier versions
    ],
)
def test_nothing_is_claimed_of_tasks_that_were_not_measured(more: Json, subject: str) -> None:
    made = result(names(2))
    assert "not measured" not in learned(made).page({}).html() and "not measured" not in learned(made).table().to_text()
    made["methods"]["onto"] = entry(names(2), 0.99, **more)
    for figure in ("forgetting", "backward_transfer"):
        made["methods"]["onto"]["figures"][figure] = spread(0.0)
    html, table = learned(made).page({}).html(), learned(made).table()
    assert "onto is the most accurate" in html and "forgets nothing" not in html
    assert html.count(f"{subject} not measured") == 2, "in the verdict and under the table"
    assert f"{subject} not measured" in " ".join(table.to_text().split())
    cells = dict(zip([c if isinstance(c, str) else c.name for c in table.columns], table.rows[-1], strict=True))
    assert cells["method"] == "onto" and cells["gain"] is not None
    assert cells["forgetting"] is None and cells["backward"] is None, "no zero stands for what is not known"
    made["methods"]["onto"]["figures"]["average_accuracy"] = spread(0.5)
    made["methods"]["firefly"]["figures"] |= {"average_accuracy": spread(0.95), "forgetting": spread(0.0)}
    assert "and forgets nothing." in learned(made).page({}).html(), "what was measured may be said"


def test_one_task_and_one_method_are_enough() -> None:
    made = result(names(1))
    made["methods"] = {"individual": made["methods"]["individual"]}
    assert "nothing to compare" in learned(made).page({}).html()


def test_what_is_said_of_one_task_stays_together() -> None:
    lines = ["'a' came first.", "'b' was bound to 'a'.", "Expanded: none.", "Shared: all.", "a owns 3 %."]
    assert by_task(lines, ["a", "b"]) == [lines[0], " ".join(lines[1:4]), lines[4]]


@pytest.mark.needs_program
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("number", [5, 50])
def test_the_page_in_a_browser(visit: Callable[..., Visit], number: int, width: int) -> None:  # noqa: F811
    seen = visit(learned(result(names(number))).page({"seed": 0}), width)
    assert_readable(seen, width)
    seen.page.locator(f".{'wide' if width > 800 else 'narrow'} .node").first.hover(position={"x": 4, "y": 4})
    assert "made for 1 digits permutation 1" in seen.page.locator("#tip").inner_text()


def test_a_report_of_many_tasks_stays_small() -> None:
    """Maps of tasks against tasks show some of many tasks, and say so; noise is the worst that a map can hold."""
    chance, tasks = random.Random(0), names(200)
    made = result(tasks)
    for place in range(5):
        made["methods"][f"naive:{place}"] = entry(tasks, 0.8)
    for method in made["methods"].values():
        method["matrix"] = [
            [chance.random() if on <= after else None for on in range(200)] for after in range(200)
        ]  # fmt: skip
    page = learned(made).page({}).html()
    assert len(page.encode()) < 5_000_000
    assert "Of the 200 tasks one in 2 is drawn." in page
    assert "is drawn." not in learned(result(names(100))).page({}).html()
