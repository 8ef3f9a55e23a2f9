"""The page in a real browser: nothing is fetched, nothing complains, nothing sticks out, everything can be read."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from sample_report import LONG, all_charts, hostile_page, sample_report, values
from tour_figures import tour_result

from ramet.reports import Page
from ramet.reports.tables import Table

pytestmark = pytest.mark.needs_program

MILLISECONDS = 300_000  # for a machine that is busy with other things

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Of every text that a chart shows: its size on the screen, and how far it reaches out of its chart.
MEASURE = """() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
  if (!svg.getClientRects().length) return [];
  const frame = svg.getBoundingClientRect();
  const scale = svg.getScreenCTM().a;
  return [...svg.querySelectorAll("text")].map((text) => {
    const box = text.getBoundingClientRect();
    const across = Math.max(frame.left - box.left, box.right - frame.right);
    const out = Math.max(across, frame.top - box.top, box.bottom - frame.bottom);
    return { text: text.textContent, size: parseFloat(getComputedStyle(text).fontSize) * scale, out };
  });
})"""


@dataclass
class Visit:
    """An open page and what happened on it."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser(find_program: Callable[[str], str]) -> Iterator[Any]:
    program = find_program("chromium")
    if os.environ.get("RAMET_REQUIRE_PROGRAMS") == "1":
        import playwright.sync_api as playwright
    else:
        playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=MILLISECONDS)
        yield running
        running.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    contexts: list[Any] = []
    visits: list[Visit] = []

    def open_page(report: Page, width: int, scheme: str = "light") -> Visit:
        path = report.write(tmp_path / "report.html")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(MILLISECONDS)
        contexts.append(context)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda message: seen.messages.append(message.text))
        seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
        seen.page.on("dialog", lambda dialog: seen.messages.append(dialog.message))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        visits.append(seen)
        seen.page.goto(path.as_uri())
        return seen

    yield open_page
    for seen in visits:
        assert [url for url in seen.requests if not url.endswith("/report.html")] == []
        assert len(seen.requests) == 1
    for context in contexts:
        context.close()


def assert_readable(seen: Visit, width: int) -> None:
    assert seen.messages == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    measured = seen.page.evaluate(MEASURE)
    assert measured
    too_small = [text for text in measured if text["size"] < 10.99]
    cut_off = [text for text in measured if text["out"] > 2]
    assert (too_small, cut_off) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_the_whole_report(visit: Callable[..., Visit], width: int, scheme: str) -> None:
    seen = visit(sample_report(), width, scheme)
    assert_readable(seen, width)
    seen.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    shade = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shade == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    assert seen.page.evaluate("document.querySelectorAll('figure.of-chart').length") == 11
    shown = "[...document.querySelectorAll('svg.chart')].filter((svg) => svg.getClientRects().length).length"
    assert seen.page.evaluate(shown) == 11  # one of the two drawings of each


def test_sentences_in_a_table_have_room_on_a_phone(visit: Callable[..., Visit]) -> None:
    words = "0 +4 (2 split, 2 new), 3 +1 (1 new), 7 +2 (2 new), 10 +1 (1 split), 14 +1 (1 new), 17 +4 (4 new)"
    page = Page("Steps")
    page.table(Table(["step", "what grew", "parameters", "gain"], [[number, words, 6208, 0.5] for number in range(3)]))
    page.chart(all_charts(values("one"), "child ")[0], "One.")
    seen = visit(page, 390)
    assert_readable(seen, 390)
    lines = "(cell) => cell.getBoundingClientRect().height / parseFloat(getComputedStyle(cell).lineHeight)"
    assert seen.page.locator("td.wordy").first.evaluate(lines) < 7
    assert seen.page.locator("tbody th").first.evaluate("(cell) => cell.getBoundingClientRect().width") < 60


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_the_tour(visit: Callable[..., Visit], width: int, scheme: str) -> None:
    result = tour_result()
    seen = visit(result.page({"config": {"seed": 0}}), width, scheme)
    assert_readable(seen, width)
    assert seen.page.evaluate("document.querySelectorAll('figure.of-chart').length") == len(result.told) == 5


@pytest.mark.parametrize("width", [320, 390, 700, 1200])
def test_long_names_and_odd_data_stay_inside(visit: Callable[..., Visit], width: int) -> None:
    page = Page(LONG, LONG)
    page.prose("unbreakable" * 30)
    for kind in ("one", "gaps", "huge", "64"):
        for chart in all_charts(values(kind), LONG if kind != "64" else "child "):
            page.chart(chart, LONG)
    assert_readable(visit(page, width), width)


def test_names_do_not_run(visit: Callable[..., Visit]) -> None:
    seen = visit(hostile_page(), 1200)
    assert seen.messages == []
    assert seen.page.evaluate("window.hacked") is None


def test_readouts_follow_the_pointer(visit: Callable[..., Visit]) -> None:
    seen = visit(sample_report(), 1200)
    tip = seen.page.locator("#tip")
    assert tip.is_hidden()
    seen.page.locator(".wide .strip").nth(22).hover()
    assert tip.inner_text().startswith("mini-batch, counted from the end of training: 22\neach mini-batch: ")
    matrix = seen.page.locator(".wide .matrix").first
    matrix.hover(position={"x": 9 * 4 + 4, "y": 9 * 2 + 4})
    row, column, value = (part.split(" ")[-1] for part in tip.inner_text().replace("\n", ", ").split(", "))
    assert (row, column) == ("113", "121") and float(value.replace("−", "-"))
    seen.page.locator("h1").hover()
    assert tip.is_hidden() and seen.messages == []


def test_without_scripts_everything_is_there(browser: Any, tmp_path: Path) -> None:
    path = sample_report().write(tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("svg.chart.wide").count() == 11 and page.locator(".wide .hit > title").count() > 100
    context.close()


def test_paper_shows_what_is_folded_and_the_drawings_for_a_desk(visit: Callable[..., Visit]) -> None:
    seen = visit(sample_report(), 390, "dark")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details:not([open])").count() == 0
    seen.page.emulate_media(media="print")
    assert seen.page.locator("svg.wide").first.is_visible() and seen.page.locator("svg.narrow").first.is_hidden()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert seen.page.locator("details[open]").count() == 0


@pytest.fixture
def kept(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A report, of which charts are saved and copied."""
    path = sample_report().write(tmp_path / "report.html")
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    context.set_default_timeout(MILLISECONDS)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(path.as_uri())
    yield page
    assert page.problems == []
    context.close()


def test_a_chart_is_saved_as_svg_that_needs_no_page(kept: Any, browser: Any, tmp_path: Path) -> None:
    with kept.expect_download() as waiting:
        kept.locator("[data-keep=svg]").first.click()
    assert waiting.value.suggested_filename == "figure-1.svg"
    target = tmp_path / "figure-1.svg"
    waiting.value.save_as(target)
    root = ElementTree.parse(target).getroot()
    assert not any("class" in element.attrib or "style" in element.attrib for element in root.iter())
    strokes = {element.get("stroke") for element in root.iter()} - {None, "none"}
    assert strokes and all(stroke.startswith("rgb") for stroke in strokes), "no colour is a variable of the page"
    # Opened alone it has the size and the words of the page's own chart.
    shown = kept.locator("svg.chart.wide").first
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    alone = context.new_page()
    alone.goto(target.as_uri())
    words = "[...document.querySelectorAll('text')].map((text) => text.textContent).join('|')"
    assert alone.evaluate(words) == shown.evaluate(
        "(s) => [...s.querySelectorAll('text')].map((t) => t.textContent).join('|')"
    )
    context.close()


def test_a_chart_is_saved_as_png_of_twice_its_size(kept: Any, tmp_path: Path) -> None:
    with kept.expect_download() as waiting:
        kept.locator("[data-keep=png]").nth(1).click()
    waiting.value.save_as(tmp_path / "chart.png")
    data = (tmp_path / "chart.png").read_bytes()
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    box = (
        kept.locator("figure.of-chart")
        .nth(1)
        .locator("svg.wide")
        .evaluate("(s) => [s.viewBox.baseVal.width, s.viewBox.baseVal.height]")
    )
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and [width, height] == [2 * side for side in box]
    assert waiting.value.suggested_filename == "figure-2.png"


def test_the_values_of_a_chart_are_copied(kept: Any) -> None:
    kept.locator("[data-keep=csv]").first.click()
    kept.locator(".keep span").first.filter(has_text="copied").wait_for()
    copied = list(csv.reader(kept.evaluate("navigator.clipboard.readText()").splitlines()))
    assert len(copied) > 2 and len({len(row) for row in copied}) == 1


def test_without_a_clipboard_the_values_are_copied_all_the_same(kept: Any) -> None:
    kept.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    kept.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    kept.locator("[data-keep=csv]").first.click()
    kept.locator(".keep span").first.filter(has_text="copied").wait_for()
    assert kept.evaluate("window.copied").count("\n") > 2
