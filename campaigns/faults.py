"""Disks that fail: at every write, rename, fsync and read of a run the error comes in one line, and the run goes on."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from campaigns.drivers import Driver, fork, own_folder, preload
from campaigns.failing_disk import WRITES, FailingDisk
from campaigns.findings import Finding, Wants
from campaigns.tiny_jobs import JOBS, beginning, differences, going_on, left_behind, outcome

_FAULTS = {
    "no room, once": ("ENOSPC", False),
    "no room from then on": ("ENOSPC", True),
    "a broken disk, once": ("EIO", False),
    "a broken disk from then on": ("EIO", True),
    "short writes from then on": ("short write", True),
}
_SECONDS_BETWEEN_SIGNALS = 0.0005


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Every job, every fault: two kinds of operation, drawn at random; in the long campaign all that can meet it."""
    preload()
    with own_folder() as place:
        for kind in JOBS:
            signals = f"faults: {kind}, calls interrupted by signals (EINTR)"
            wanted = {name: fault for name, fault in _FAULTS.items() if wants(f"faults: {kind}, {name}")}
            if not wanted and not wants(signals):
                continue
            expected, operations = reference(kind, place / kind[:2])
            for name, (fault, lasts) in wanted.items():
                folder = place / f"{kind[:2]}-{list(_FAULTS).index(name)}"
                folder.mkdir()
                chosen = chosen_from(operations, fault, is_long, random.Random(f"{seed}/{kind}/{name}"))
                lost, ends = [], Counter[str]()
                for number in chosen:
                    end, sentences = fail_once(kind, folder / str(number), number, fault, lasts, expected)
                    ends[end] += 1
                    lost += [f"{operations[number]} ({number}): {each}" for each in sentences]
                kinds = len(kinds_that_meet(fault, operations))
                detail = f"of {len(operations)} operations, {kinds} kinds that can meet it; " + ", ".join(
                    f"{n} {end}" for end, n in sorted(ends.items())
                )
                yield Finding(what=f"faults: {kind}, {name}", tried=len(chosen), lost=lost, detail=detail)
            if wants(signals):
                yield Finding(
                    what=signals,
                    tried=1,
                    lost=interrupted(kind, place / f"{kind[:2]}-signals", expected),
                    detail=f"a signal every {1000 * _SECONDS_BETWEEN_SIGNALS:g} ms of the whole run",
                )


def kinds_of(operations: Sequence[str]) -> dict[str, list[int]]:
    """The places of operations that differ in numbers alone, such as the writes of two checkpoints of one part.

    >>> kinds_of(["write step-1.json", "write records.jsonl", "write step-2.json"])
    {'write step-#.json': [0, 2], 'write records.jsonl': [1]}
    """
    kinds: dict[str, list[int]] = {}
    for place, operation in enumerate(operations):
        kinds.setdefault(re.sub(r"[0-9a-f]{8,}|\d+", "#", operation), []).append(place)
    return kinds


def kinds_that_meet(fault: str, operations: Sequence[str]) -> dict[str, list[int]]:
    """The kinds at which a fault can begin: reading needs no room, and only a write can be a short one."""
    where = {"ENOSPC": WRITES, "short write": ("write",)}.get(fault)
    kinds = kinds_of(operations)
    return {kind: places for kind, places in kinds.items() if where is None or kind.rpartition(" ")[0] in where}


def chosen_from(operations: Sequence[str], fault: str, is_long: bool, rng: random.Random) -> list[int]:
    """Which operations fail: one of every kind that can meet the fault, or one each of two such kinds."""
    kinds = list(kinds_that_meet(fault, operations).values())
    return sorted(rng.choice(places) for places in (kinds if is_long else rng.sample(kinds, min(2, len(kinds)))))


def reference(kind: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """What an undisturbed run gives, and the operations that it consists of."""
    folder.mkdir()
    disk = FailingDisk(folder / "run")

    def work() -> None:
        _ramet(disk, beginning(kind, folder / "run"), folder)

    def noted() -> None:
        try:
            work()
        finally:
            (folder / "operations").write_text(json.dumps(disk.seen))

    driver = fork(noted, folder / "errors")
    if code := driver.wait():
        raise RuntimeError(f"an undisturbed run must end well, but {kind} had exit code {code}: {driver.errors()}")
    return outcome(folder / "run"), json.loads((folder / "operations").read_text())


def fail_once(
    kind: str, folder: Path, number: int, fault: str, lasts: bool, expected: dict[str, str]
) -> tuple[str, list[str]]:
    """A run on a disk that fails at an operation, and its resumption on a whole one; its end, and what is wrong."""
    folder.mkdir()
    out = folder / "run"
    disk = FailingDisk(out, number, fault, lasts)
    driver = fork(lambda: _ramet(disk, beginning(kind, out), folder), folder / "errors")
    lost, end = _ended_in_a_line(driver)
    resumed = fork(lambda: _ramet(None, going_on(kind, out), folder), folder / "errors-resumed")
    try:
        if code := resumed.wait():
            return end, [*lost, f"resumed, exit code {code}: {' / '.join(resumed.errors()[-3:])}"]
    except TimeoutError as error:
        return end, [*lost, f"resumed, {error}"]
    lost += differences(expected, outcome(out)) + left_behind(out)
    return end, lost


def interrupted(kind: str, folder: Path, expected: dict[str, str]) -> list[str]:
    """A run whose system calls are interrupted all the time: the real thing, by a timer."""
    folder.mkdir()

    def work() -> None:
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_BETWEEN_SIGNALS, _SECONDS_BETWEEN_SIGNALS)
        _ramet(None, beginning(kind, folder / "run"), folder)

    driver = fork(work, folder / "errors")
    try:
        if code := driver.wait():
            return [f"exit code {code}: {' / '.join(driver.errors()[-3:])}"]
    except TimeoutError as error:
        return [str(error)]
    return differences(expected, outcome(folder / "run")) + left_behind(folder / "run")


def _ended_in_a_line(driver: Driver) -> tuple[list[str], str]:
    """What is wrong with how a run ended whose disk failed, and how it did: it may also have done without."""
    try:
        code = driver.wait()
    except TimeoutError as error:
        return [str(error)], "hung"
    errors = driver.errors()
    if code == 0:
        return [], "went on"
    # Warnings, such as of a checkpoint that cannot be read, may come before the line that ends it.
    if code == 1 and errors and errors[-1].startswith("ramet: ") and not any("Traceback" in line for line in errors):
        return [], "ended in one line"
    return [f"exit code {code}: {' / '.join(errors[-3:])}"], "ended otherwise"


def _ramet(disk: FailingDisk | None, arguments: list[str], folder: Path) -> None:
    from ramet.cli import main

    os.chdir(folder)
    os.environ |= {"HOME": str(folder), "TMPDIR": str(folder)}
    if disk is not None:
        disk.put_in_place()
    main([*arguments, "--executor", "inline"])
