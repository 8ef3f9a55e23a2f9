"""What a page takes to open in a real browser, in CPU seconds: a busy machine makes those of a clock longer."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def seconds_to_open(path: Path) -> float | None:
    """The CPU seconds until a page has loaded and drawn itself, without the browser's start; None without a browser.

    All processes of the browser count, so that on a quiet machine a clock shows less. The least of three times:
    whatever disturbs only adds.
    """
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        try:
            return min(_opened(browser, path) for _ in range(3))
        finally:
            browser.close()


def _opened(browser: object, path: Path) -> float:
    before = cpu_seconds_below(os.getpid())
    page = browser.new_page()  # type: ignore[attr-defined]
    page.goto(path.as_uri(), wait_until="load", timeout=300_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    after = cpu_seconds_below(os.getpid())
    page.close()
    return sum(used - before.get(pid, 0.0) for pid, used in after.items())  # one that has ended takes nothing off


def cpu_seconds_below(ancestor: int) -> dict[int, float]:
    """What the living processes below another have had of the processor, by their numbers."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return {pid: seconds for pid, seconds in used.items() if ancestor in _above(pid, parents)}


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid
