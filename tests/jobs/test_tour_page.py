"""The tour's table and page, from figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tour_figures as made
from markupsafe import escape

from ramet.jobs.tour.report import NEXT, grown_chart, page, unbroken
from ramet.jobs.tour.result import TourResult
from ramet.runs.encoding import encode


@pytest.fixture(scope="module")
def html():
    return page(made.tour_result(), {"config": {"seed": 0}}).html()


def test_five_sentences_and_five_pictures(html):
    told = made.tour_result().told
    assert html.count('class="verdict') == html.count('<figcaption><span class="count">Figure') == len(told) == 5
    for each in told.values():
        assert escape(unbroken(each.words)) in html and f'class="verdict {each.tone}"' in html


def test_the_picture_of_a_growth_shows_what_its_sentence_says():
    chart = grown_chart(made.grown((0.95, 0.9), (0.97, 0.92)))
    assert chart.description == (
        "Dots of test accuracy, %: grown, 300 parameters 96.0 [95.0, 97.0]; plain, 310 parameters 91.0 [90.0, 92.0]; "
        "as small as it was, 100 parameters 62.0 [62.0, 62.0]."
    )


def test_who_gets_the_page_is_told_what_ramet_is(html):
    assert "<strong>ramet</strong> is a library and a command line on PyTorch" in html


def test_the_program_and_the_commands_are_on_the_page(html):
    assert "type: ignore" not in html and "with guard.watch(network):" in html and "guard.remember(params)" in html
    for command, _ in NEXT.values():
        assert command in html


def test_every_command_to_try_next_is_one_of_ramet():
    from ramet.cli.main import make_app

    for name, (command, _) in NEXT.items():
        app = make_app([name])
        _, bound, _ = app.parse_args(command.split()[1:], exit_on_error=False, print_error=False)
        assert bound is not None


def test_the_files_of_the_commands_are_those_that_init_writes():
    from ramet.cli.init import starter_texts

    for kind in ("space", "network", "stream"):
        written = {str(path) for path in starter_texts(kind, Path(f"{kind}.py"))}
        said = [command for command, about in NEXT.values() if f"ramet init {kind}" in about]
        assert len(said) == 1 and any(name in said[0] for name in written)


def test_what_is_quick_says_so():
    quick = replace(made.tour_result(), quick=True)
    assert "too short for a verdict" in page(quick, {}).html() and "too short for a verdict" in quick.summary()
    assert "too short for a verdict" not in made.tour_result().summary()


def test_the_table_has_a_row_a_part():
    result = made.tour_result()
    rows = result.table().to_json()
    assert [row["outcome"] for row in rows] == [told.outcome for told in result.told.values()]
    assert [row["with ramet"] for row in rows] == ["0.70", "95.0 %", "95.5 %", "97.0 %", "95.0 %"]
    assert rows[2]["beside it"].startswith("91.0 %") and rows[4]["beside it"].startswith("70.0 %")


def test_one_line_stands_for_the_tour():
    assert repr(made.tour_result()) == "TourResult(parts that came out well 5 of 5)"
    noisy = replace(made.tour_result(), judged=made.judged(reliability=0.1))
    assert repr(noisy) == "TourResult(parts that came out well 4 of 5)"


def test_a_result_comes_back_as_it_was():
    result = made.tour_result()
    assert TourResult.from_json(json.loads(encode(result.to_json()))) == result


def test_what_was_not_measured_on_a_quick_tour_is_left_out():
    unknown = replace(made.tour_result(), found=made.found(found="z", largest="y"))
    assert unknown.table().to_json()[1]["with ramet"] == "–"
    assert "all others" in page(unknown, {}).html()
