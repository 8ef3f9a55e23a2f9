"""PostgreSQL killed in the middle of a study and started again: no trial is lost, doubled or different."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from campaigns.drivers import alive, command, own_folder, preload, wait_until_gone
from campaigns.findings import Finding, Wants
from campaigns.postgres_server import Server, programs, serving
from campaigns.tiny_jobs import beginning, differences, going_on, left_behind, outcome

_VARIABLE = "RAMET_STORAGE"


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Kills of the server at random moments of a study; the study is resumed when the server is back."""
    what = "database: PostgreSQL killed during a study"
    if not wants(what):
        return
    if not os.path.exists(programs("initdb")):
        yield Finding(what=what, skipped="PostgreSQL is not installed")
        return
    preload()
    rng, lost, kills = random.Random(seed), [], 0
    with own_folder() as place, serving(str) as server:
        os.environ[_VARIABLE] = server.fresh()
        try:
            started = time.monotonic()
            expected = _undisturbed(place / "whole")
            seconds = time.monotonic() - started
            for number in range(20 if is_long else 3):
                os.environ[_VARIABLE] = server.fresh()
                was_killed, sentences = kill_once(
                    server, place / str(number), rng.uniform(0.1, 0.9) * seconds, expected
                )
                kills += was_killed
                lost += sentences
        finally:
            del os.environ[_VARIABLE]
    yield Finding(what=what, tried=kills, lost=lost, detail="one line each time, resumed to the same trials")


def _undisturbed(folder: Path) -> dict[str, str]:
    folder.mkdir()
    driver = command(beginning("study", folder / "run"), folder / "errors", folder)
    if code := driver.wait():
        raise RuntimeError(f"an undisturbed study must end well, but had exit code {code}: {driver.errors()}")
    return outcome(folder / "run")


def kill_once(server: Server, folder: Path, delay: float, expected: dict[str, str]) -> tuple[bool, list[str]]:
    """A study whose server dies after a while; whether it died in time, and what was lost."""
    folder.mkdir()
    driver = command(beginning("study", folder / "run"), folder / "errors", folder)
    time.sleep(delay)
    was_running = driver.pid in alive({driver.pid})
    server.kill()
    code, errors = driver.wait(), driver.errors()
    server.start()
    lost = []
    if code not in (0, 1, 2) or any("Traceback" in line for line in errors):
        lost.append(f"exit code {code}: {' / '.join(errors[-2:])}")
    resumed = command(going_on("study", folder / "run"), folder / "errors-resumed", folder)
    if code := resumed.wait():
        return was_running, [*lost, f"resumed, exit code {code}: {' / '.join(resumed.errors()[-2:])}"]
    wait_until_gone({driver.pid, resumed.pid})
    return was_running, lost + differences(expected, outcome(folder / "run")) + left_behind(folder / "run")
