"""The disk that fails: what is written below a folder fails at the chosen operation, and a reader finds whole files."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.drivers import fork
from campaigns.failing_disk import FailingDisk
from campaigns.faults import chosen_from, kinds_of
from campaigns.protocol import Story, tell_stories
from ramet.runs.atomic import write_atomically

LONG = b"new " * 1000


def in_a_process(work: Callable[[], None], folder: Path) -> int:
    return fork(work, folder / "errors").wait()


def written(folder: Path, at: int | None, kind: str, lasts: bool = False) -> tuple[int, list[str], bytes]:
    """The exit code of a process that replaces a file, the operations that it saw, and what is in the file then."""
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "file").write_bytes(b"old")
    disk = FailingDisk(folder / "run", at, kind, lasts)

    def work() -> None:
        disk.put_in_place()
        try:
            write_atomically(folder / "run" / "file", LONG)
        finally:
            (folder / "seen").write_text(json.dumps(disk.seen))

    code = in_a_process(work, folder)
    seen = json.loads((folder / "seen").read_text()) if (folder / "seen").exists() else []
    return code, seen, (folder / "run" / "file").read_bytes()


def test_every_operation_is_counted_and_can_fail(tmp_path: Path) -> None:
    code, seen, content = written(tmp_path, None, "EIO")
    operations = [line.split()[0] for line in seen]
    assert code == 0 and content == LONG
    assert [each for each in operations if each in ("write", "fsync", "replace")] == [
        "write",
        "fsync",
        "replace",
        "fsync",
    ]
    for number, operation in enumerate(operations):
        before_it_has_its_name = number <= operations.index("replace")
        code, _, content = written(tmp_path, number, "EIO")
        assert content == (b"old" if before_it_has_its_name else LONG), operation
        assert code == 1 or not before_it_has_its_name
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["file"], operation
        message = (tmp_path / "errors").read_text()
        assert code == 0 or "DiskError: cannot write" in message, message
    code, seen, content = written(tmp_path, 0, "short write", lasts=True)
    assert code == 0 and content == LONG and sum(line.startswith("write") for line in seen) > 5


def test_every_read_is_counted_and_can_fail(tmp_path: Path) -> None:
    path = tmp_path / "run" / "file"
    path.parent.mkdir()
    path.write_bytes(bytes(range(65)) * 400)

    def read(at: int | None) -> Callable[[], None]:
        def work() -> None:
            disk = FailingDisk(tmp_path / "run", at)
            disk.put_in_place()
            with open(path, "rb") as file:
                assert file.read(10) == bytes(range(10)) and file.read() == path.read_bytes()[10:]
            with open(path, "rb", buffering=0) as raw:
                assert raw.readinto(bytearray(70)) == 70
            assert path.read_text(encoding="latin-1")[:3] == "\0\1\2"
            (tmp_path / "seen").write_text(json.dumps(disk.seen))

        return work

    assert in_a_process(read(None), tmp_path) == 0, (tmp_path / "errors").read_text()
    seen = json.loads((tmp_path / "seen").read_text())
    assert sum(line == "open to read file" for line in seen) == 4 and sum(line == "read file" for line in seen) >= 5
    for number in range(len(seen)):
        assert in_a_process(read(number), tmp_path) == 1
        assert "Input/output error" in (tmp_path / "errors").read_text()


def test_a_process_ends_in_the_middle(tmp_path: Path) -> None:
    code, seen, content = written(tmp_path, 1, "end")
    assert code == 137 and seen == [] and content == b"old"


@pytest.mark.slow
def test_stories_of_the_run_directory_end_well(tmp_path: Path) -> None:
    events, lost = tell_stories(tmp_path, 4, seed=0)
    assert lost == [] and events >= 0


def test_the_model_notices_what_is_lost(tmp_path: Path) -> None:
    story = Story(tmp_path / "run")
    story.create(None)
    story.write(2, True, None)
    story.second_writer()
    story.report()
    records = tmp_path / "run" / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(lines[0])
    with pytest.raises(AssertionError, match="lost records"):
        story.report()
    records.write_bytes(b"".join(lines))
    for path in (tmp_path / "run" / "checkpoints" / "part").glob("*.json"):
        os.remove(path)
    with pytest.raises(AssertionError, match="checkpoint 0, but 1 was saved"):
        story.report()


def test_every_kind_of_operation_is_chosen_in_the_long_campaign() -> None:
    operations = [
        f"{name} .step-{number:012d}-{number:016x}.json" for number in range(9) for name in ("write", "fsync")
    ]
    operations += ["open to write config.json", "read config.json"]
    assert [len(places) for places in kinds_of(operations).values()] == [9, 9, 1, 1]
    for fault, kinds in {"EIO": 4, "ENOSPC": 3, "short write": 1}.items():
        chosen = chosen_from(operations, fault, True, random.Random(0))
        assert len(kinds_of([operations[place] for place in chosen])) == len(chosen) == kinds
        assert len(chosen_from(operations, fault, False, random.Random(0))) == min(2, kinds)
    assert 19 not in chosen_from(operations, "ENOSPC", True, random.Random(0))  # reading needs no room
