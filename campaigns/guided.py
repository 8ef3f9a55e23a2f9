"""Fuzzing that is led by what an input reaches: atheris mutates what comes furthest into each parser.

Every parser has a process of its own, because libFuzzer ends the process that it fuzzes in. What it finds on its way
lies in a temporary folder and is gone afterwards: nothing is kept but the small valid inputs of ``parsers.py``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from campaigns.drivers import own_folder
from campaigns.findings import Finding, Wants

SHORT = (
    "npz", "IDX", "CSV of data", "records", "files of tensors", "joint networks", "grown networks: JSON",
    "spec strings: parse_spec",
)  # fmt: skip
"""The parsers of the short campaign: one of each kind."""
_ROOT = Path(__file__).parents[1]
_SECONDS_BEYOND = 300
_MEGABYTES = 4096


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Some seconds for each kind of parser; in the long campaign a minute for every parser."""
    if importlib.util.find_spec("atheris") is None:
        yield Finding(what="guided", skipped="atheris is not installed; pip install atheris")
        return
    from campaigns.parsers import parsers

    with own_folder() as place:
        (place / "made").mkdir()
        names = [parser.name for parser in parsers(place / "made")]
        for number, name in enumerate(names):
            if wants(f"guided: {name}") and (is_long or name in SHORT):
                yield guided(name, place / str(number), 60 if is_long else 5, seed)


def guided(name: str, folder: Path, seconds: int, seed: int) -> Finding:
    """One parser for so many seconds."""
    folder.mkdir()
    command = [sys.executable, "-m", "campaigns.guided", name, str(folder), str(seconds), str(seed)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, timeout=seconds + _SECONDS_BEYOND
        )
    except subprocess.TimeoutExpired:
        return Finding(what=f"guided: {name}", tried=1, lost=["it had not ended in time"])
    said = (done.stdout + done.stderr).decode(errors="replace")
    counted = re.search(r"Done (\d+) runs|stat::number_of_executed_units: (\d+)", said)
    covered = re.findall(r"cov: (\d+)", said)
    lost = []
    if done.returncode:
        raised = [line for line in said.splitlines() if re.match(r"[\w.]*(Error|Exception|surprise)|SUMMARY", line)]
        lost = [f"exit code {done.returncode}: {' / '.join(raised[-3:]) or said[-200:]}"]
    tried = int(next(filter(None, counted.groups()))) if counted else 0
    if not tried and not lost:
        lost = ["nothing was tried"]
    detail = f"{covered[-1]} places of the code reached" if covered else ""
    return Finding(what=f"guided: {name}", tried=tried, lost=lost, detail=detail)


def _fuzz(name: str, folder: Path, seconds: str, seed: str) -> None:
    """In a process of its own: fuzz until the time is over, or something surprises."""
    import atheris

    with atheris.instrument_imports(include=["ramet"]):
        from campaigns.fuzzing import _surprise
        from campaigns.parsers import parsers

        for place in ("made", "here", "corpus"):
            (folder / place).mkdir()
        (parser,) = (parser for parser in parsers(folder / "made") if parser.name == name)
    for number, content in enumerate(parser.inputs):
        (folder / "corpus" / str(number)).write_bytes(content)

    def once(content: bytes) -> None:
        surprise = _surprise(parser, content, folder / "here")
        if surprise:
            raise RuntimeError(f"{surprise}, for {content[:60]!r}")

    limits = [f"-max_total_time={seconds}", f"-seed={int(seed) + 1}", "-max_len=4096", "-timeout=60"]
    places = [f"-rss_limit_mb={_MEGABYTES}", f"-artifact_prefix={folder}/", str(folder / "corpus")]
    atheris.Setup([sys.argv[0], *limits, *places, "-print_final_stats=1"], once)
    atheris.Fuzz()


if __name__ == "__main__":
    _fuzz(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:5])
