"""The report of `ramet grow`: every figure from the records, a picture with the grown parts marked, no models."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from test_reports_browser import Visit, assert_readable, browser, visit  # noqa: F401 - fixtures

from ramet.fields import from_json
from ramet.jobs.grow.report import page
from ramet.jobs.grow.result import GrowResult, StepFigures, StepSeconds, words_of
from ramet.reports.charts import Block, layer_chart
from ramet.runs.encoding import Json


def layer(name: str, units: int, *, new: bool = False) -> Json:
    return {"name": name, "kind": "3x3 convolution", "units": units, "inputs": 3, "params": 9 * units, "new": new}


def step(number: int, params: int, score: float, widened: Json | None = None, layers: Json | None = None) -> Json:
    grown = number > 0
    return {
        "number": number, "widened": widened or {}, "layers": layers or {}, "num_candidates": 40 if grown else 0,
        "sizes": {"neurons": params // 10, "params": params, "flops": 8.0 * params}, "budget_size": params,
        "score": score, "loss": 1.0 - score, "loss_before": 0.5 if grown else None,
        "loss_after": 0.51 if grown else None,
    }  # fmt: skip


def method(*steps: Json, layers: list[Json]) -> Json:
    sizes = steps[-1]["sizes"]
    return {
        "stopped": "the budget is reached", "steps": list(steps), **sizes, "validation": steps[-1]["score"],
        "test": steps[-1]["score"] - 0.01, "layers": layers, "network": "networks/it", "not_exported": "",
    }  # fmt: skip


def result() -> Json:
    first = step(0, 1000, 0.8)
    grown = {"conv1": {"units": 4, "split": [0], "new": 1, "best_score": 0.01}}
    firefly = method(
        first,
        step(1, 1300, 0.9, grown),
        step(2, 1700, 0.899, {"conv2": {"units": 8, "split": [], "new": 3, "best_score": 0.02}}, {"conv1": 5}),
        layers=[layer("conv1", 6), layer("conv1+1.inner", 5, new=True), layer("conv1+1.outer", 6, new=True),
                layer("conv2", 11), layer("head", 10)],
    )  # fmt: skip
    other = method(first, step(1, 1300, 0.85, grown), layers=[layer("conv1", 6), layer("conv2", 8), layer("head", 10)])
    return {
        "network": "mine.py:network", "data_name": "digits", "seed": 0, "data": "0" * 64,
        "layers": [layer("conv1", 4), layer("conv2", 8), layer("head", 10)],
        "refusals": [{"name": "head", "reason": "it is the network's output"}],
        "budget": {"unit": "params", "total": 2000.0, "step": 0.3, "layers": 1},
        "methods": {"firefly": firefly, "random <b>": other},
    }  # fmt: skip


def grown() -> GrowResult:
    return GrowResult.from_json(result())


SECONDS = {"firefly": [StepSeconds(growing=float(n), training=3.0 + (n == 2)) for n in range(3)]}


def test_the_page_says_what_the_records_say() -> None:
    html = page(grown(), {"config": {}}, SECONDS).html()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    assert "1.7× the parameters and the training that went with them gave +9.9 points: from 80.0 % to 89.9 %" in text
    assert "Step 1, with 1,300 parameters, was already within half a point of the best." in text
    assert "conv2 +3 (3 new), a new layer behind conv1 with 5" in text
    assert "it is the network&#39;s output" in text
    assert "beside 10 s of training" in text and "3.0 s" in text
    assert "<b>" not in html, "names are escaped"


def test_the_table_has_a_row_for_each_method() -> None:
    rows = grown().table().rows
    assert [row[0] for row in rows] == ["firefly", "random <b>"]
    assert rows[0][1:] == [2, 1700, 13600.0, None, 0.899, pytest.approx(0.889), "the budget is reached"]
    assert "1,000 parameters and 80.0 %" in grown().table().caption


def test_a_network_that_begins_wider_is_not_taken_for_the_one_that_was_given() -> None:
    values = result() | {"given_params": 400}
    begun = values["methods"]["firefly"]["steps"][0]
    begun["widened"] = {"conv2": {"units": 8, "split": [1, 2], "new": 0}}
    found = GrowResult.from_json(values)
    html = page(found, {"config": {}}, SECONDS).html()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    assert "4.2× the parameters and the training that went with them: 89.9 % of the validation images." in text
    assert "from 400, by way of 1,000" in text and "from 80.0 % at 1,000 parameters" in text
    assert "before: 400 parameters" in text, "the picture's first widths are those of the network as it was given"
    caption = found.table().caption
    assert (
        "All start from 400 parameters; firefly was widened to 1,000 before its first training, which gave it"
        in caption
    )
    assert "80.0 % of the validation images; random <b> was" in caption


def test_a_step_that_was_kept_is_the_end() -> None:
    values = result()
    firefly = values["methods"]["firefly"]
    firefly |= {"kept": 1, "stopped": "growth no longer pays", **firefly["steps"][1]["sizes"], "validation": 0.9}
    html = page(GrowResult.from_json(values), {}, {}).html()
    assert "The network is that of step 1, the best" in html and "gave +10.0 points" in html
    assert "was already within half a point" not in html


def test_blocks_are_as_wide_as_their_channels_and_new_ones_are_marked() -> None:
    chart = layer_chart(
        [Block("a", "linear", 4, 8), Block("b", "linear", None, 8), Block("c", "", 2, 2, "not grown: it")]
    )
    svg = str(chart.svg(820))
    blocks = re.findall(
        r'<g class="(s\d)">((?:<rect x="[\d.]+" y="[\d.]+" width="[\d.]+" height="20"[^>]*>)+)</g>', svg
    )
    widths = [(series, [float(w) for w in re.findall(r'width="([\d.]+)"', rects)]) for series, rects in blocks]
    assert [series for series, _ in widths] == ["s6", "s6", "s2", "s1", "s6", "s6"]
    whole = widths[3][1][0]
    expected = [[whole / 2], [whole / 2], [whole / 4, whole / 4], [whole], [whole / 4], [whole / 4]]
    for (_, found), wanted in zip(widths, expected, strict=True):
        assert found == pytest.approx(wanted, abs=0.2)
    assert "a new layer" in svg and "not grown: it" in svg
    assert "a new layer" not in str(layer_chart([Block("a", "", 4, 8)]).svg(820)), "no legend for what is not there"


def test_nothing_grown_and_nothing_to_draw() -> None:
    values = result()
    values["methods"] = {"nash": method(step(0, 1000, 0.8), layers=values["layers"])}
    values["refusals"] = []
    html = page(GrowResult.from_json(values), {}, {}).html()
    assert "added nothing: the budget is reached" in html and "Growing did not help" in html
    assert "Everything in this network can grow" in html
    assert "nothing to draw" in str(layer_chart([]).svg(350))


def test_what_grew_in_words() -> None:
    values = step(1, 100, 0.5, {"a": {"units": 3, "split": [1, 2], "new": 0}})
    assert words_of(from_json(StepFigures, values)) == "a +2 (2 split)"


@pytest.mark.needs_program
@pytest.mark.parametrize("width", [390, 1200])
def test_the_report_in_a_browser(visit: Callable[..., Visit], width: int) -> None:  # noqa: F811
    values = result()
    values["methods"]["firefly"]["layers"][0]["name"] = "a.very.long.name.of.a.module.deep.inside.the.network.conv1"
    seen = visit(page(GrowResult.from_json(values), {"config": {"seed": 0}}, SECONDS), width)
    assert_readable(seen, width)
    shown = "[...document.querySelectorAll('svg.chart')].filter((svg) => svg.getClientRects().length).length"
    assert seen.page.evaluate(shown) == 4  # the curves, two pictures, one map of where it grew


def test_the_report_reads_results_only() -> None:
    for name in ("report", "result"):
        source = (Path(__file__).parents[2] / f"ramet/jobs/grow/{name}.py").read_text()
        assert "import torch" not in source
