"""Damaged and crafted inputs for every parser: read, or refused in one line, within a bound of memory."""

from __future__ import annotations

import json
import random
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from campaigns.drivers import fork, own_folder, preload
from campaigns.findings import Finding, Wants
from campaigns.mutations import mutated_bytes
from campaigns.parsers import Parser, parsers

ROOM = 4 << 30
"""Bytes of address space that a parser gets beyond what the process has."""
LONGEST = 10.0
"""Seconds that one small input may take."""


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Each parser in a process of its own, whose memory is limited."""
    preload()
    with own_folder() as place:
        (place / "made").mkdir()
        for number, parser in enumerate(parsers(place / "made")):
            if wants(f"fuzzing: {parser.name}"):
                yield tried(parser, place / str(number), 5000 if is_long else 200, seed)


def tried(parser: Parser, folder: Path, count: int, seed: int) -> Finding:
    """One parser with so many inputs, and with those that are tried as they are."""
    folder.mkdir()
    answer = folder / "answer.json"

    def work() -> None:
        (folder / "here").mkdir()
        _limit_memory()
        started = time.monotonic()
        num_inputs, lost = surprises(parser, folder / "here", count, seed)
        answer.write_text(json.dumps([num_inputs, lost, time.monotonic() - started]))

    driver = fork(work, folder / "errors")
    try:
        code = driver.wait(seconds=3600)
    except TimeoutError as error:
        code = str(error)  # type: ignore[assignment]
    if not answer.exists():
        lost = [f"the process ended with {code}: {' / '.join(driver.errors()[-2:])}"]
        return Finding(what=f"fuzzing: {parser.name}", tried=count, lost=lost)
    num_inputs, lost, seconds = json.loads(answer.read_text())
    shutil.rmtree(folder / "here", ignore_errors=True)
    return Finding(what=f"fuzzing: {parser.name}", tried=num_inputs, lost=lost, detail=f"{seconds:.0f} s")


def surprises(parser: Parser, folder: Path, count: int, seed: int) -> tuple[int, list[str]]:
    """How many inputs were read, and each that was neither read nor refused in one line; hypothesis makes it small."""
    import hypothesis
    from hypothesis import strategies as st

    num_inputs, lost = 0, []
    for content in parser.extra:
        num_inputs += 1
        if surprise := _surprise(parser, content, folder):
            lost.append(f"{surprise}, for {content[:60]!r}")

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(st.sampled_from(parser.inputs), st.randoms(use_true_random=False), st.integers(1, 3))
    def once(content: bytes, rng: random.Random, times: int) -> None:
        nonlocal num_inputs
        num_inputs += 1
        for _ in range(times):
            content = mutated_bytes(content, rng)
        surprise = _surprise(parser, content, folder)
        assert not surprise, f"{surprise}, for {content[:200]!r}"

    try:
        once()
    except BaseExceptionGroup as group:
        lost += [str(error) for error in group.exceptions]
    except Exception as error:
        lost.append(str(error))
    return num_inputs, lost


def _surprise(parser: Parser, content: bytes, folder: Path) -> str:
    """What is wrong with how a parser took an input, or nothing."""
    from ramet.errors import RametError

    started, error_said = time.monotonic(), ""
    try:
        parser.read(content, folder)
    except RametError as error:
        error_said = "several lines" if "\n" in str(error) else ""
    except MemoryError:
        pass  # `ramet` says so in one line
    except Exception as error:
        error_said = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - started
    return error_said or (f"it took {seconds:.0f} s" if seconds > LONGEST else "")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
