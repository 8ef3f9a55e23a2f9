"""The five jobs at their smallest: a second each, with checkpoints at every occasion, and what their results are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from ramet.runs import read_records
from ramet.runs.encoding import encode

_IMAGES = "--train-size 60 --eval-size 60"
JOBS = {
    "rank": "--channels 2 --cells 1 --batch-size 20 --epochs 3 --instances 2 --children 4 --truth-seeds 1 "
    f"--fine-tune-steps 2 --last-steps 1 --last-epochs 1 {_IMAGES}",
    "search": "--channels 2 --cells 1 --train-size 40 --eval-size 16 --epochs 3 --warmup-epochs 1 --models-per-epoch 2 "
    "--batches-per-model 2 --strategy-steps 1 --archs-per-step 2 --batch-size 8 --final-epochs 2 --candidates 3 "
    "--guard plasticity --strategy evolution:population_size=3",
    "grow": f"--network mlp --budget neurons=60,step=4 --max-steps 2 --epochs 2 --method firefly,net2net {_IMAGES}",
    "learn": "--stream split-digits:3 --network mlp:8 --epochs 2 --method naive,bind-and-grow:num_samples=12 "
    f"{_IMAGES}",
    "study": "--stream split-digits:2 --network mlp:8 --epochs 2 --trials 4 --method bind-and-grow:num_samples=12 "
    f"{_IMAGES}",
}
"""The options of each, all on the embedded digits."""

# What differs between two runs that nobody disturbed: clocks, and the name by which a run is known to its study.
_MEASURED = re.compile(r"(^|/)seconds$")
_OWN_FILES = {"lock", "config.json", "environment.json", "records.jsonl", "report.html", "study.db"}
_TEMPORARY = ".ramet-tmp"


def beginning(kind: str, out: Path) -> list[str]:
    """The command that begins a job in a folder."""
    cache = ["--truth-cache", str(out.with_name(f"{out.name}-truth"))] if kind == "rank" else []
    return [kind, *JOBS[kind].split(), *cache, "--checkpoint-every", "0", "--out", str(out)]


def going_on(kind: str, out: Path) -> list[str]:
    """The command that goes on with it, or begins it where it had not come to be a run."""
    if (out / "config.json").exists():
        return ["resume", str(out), "--checkpoint-every", "0"]
    return beginning(kind, out)


def outcome(out: Path) -> dict[str, str]:
    """All that a finished run gives, as texts that are equal where it is: records without clocks, digests of files."""
    found = {}
    for record in read_records(out):
        key = record.pop("key")
        if key != "member" and not _MEASURED.search(key):
            found[f"record {key}"] = encode(_without_clocks(record), sort_keys=True)
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out)
        if path.is_file() and name.parts[0] not in (*_OWN_FILES, "checkpoints"):
            found[f"file {name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if not (out / "report.html").is_file():
        found["report"] = "missing"
    return found


def left_behind(out: Path) -> list[str]:
    """What no finished run may have: files that writes left."""
    return [f"{path.relative_to(out)} was left" for path in out.rglob(f"*{_TEMPORARY}")]


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Where two outcomes differ, a sentence each."""
    lost = [f"{key} is missing" for key in expected.keys() - found.keys()]
    lost += [f"{key} is new" for key in found.keys() - expected.keys() if not key.startswith("record failed/")]
    return lost + [f"{key} differs" for key in expected.keys() & found.keys() if expected[key] != found[key]]


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clocks(item) for key, item in value.items() if key != "seconds"}
    return [_without_clocks(item) for item in value] if isinstance(value, list) else value
