"""How long a page takes to open in a real browser."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def seconds_to_open(path: Path) -> float | None:
    """The seconds until a page has loaded and drawn itself, without the browser's own start; None without a browser.

    The least of three times: whatever disturbs only adds.
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
    page = browser.new_page()  # type: ignore[attr-defined]
    start = time.monotonic()
    page.goto(path.as_uri(), wait_until="load", timeout=300_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seconds = time.monotonic() - start
    page.close()
    return seconds
