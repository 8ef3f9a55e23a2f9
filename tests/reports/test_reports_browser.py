"""The page in a real browser: nothing is fetched, nothing complains, nothing sticks out, everything can be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sample_report import LONG, all_charts, hostile_page, sample_report, values

from ramet.reports import Page

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
