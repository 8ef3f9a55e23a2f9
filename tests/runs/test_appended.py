"""A list in a file, each of whose items is written once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ramet.errors import RunError
from ramet.runs import appended
from ramet.runs.appended import AppendedList


def test_it_goes_on_from_any_mark(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "rows.jsonl"
    rows, marks = AppendedList(path), []
    assert AppendedList(path).load(rows.mark) == [], "of no items there need not be a file"
    for number in range(4):
        rows.extend([{"number": number, "value": float("nan") if number == 2 else 0.1 * number}])
        marks.append(rows.mark)
    for count, mark in enumerate(marks, start=1):
        again = AppendedList(path)
        found = again.load(mark)
        assert found is not None and [row["number"] for row in found] == list(range(count)) and len(again) == count
    again = AppendedList(path)
    again.load(marks[1])
    again.extend([{"number": "other"}, "last"])
    assert AppendedList(path).load(marks[2]) is None, "what came after the mark was cut off"
    found = AppendedList(path).load(again.mark)
    assert found is not None and found[2:] == [{"number": "other"}, "last"]
    assert len(path.read_bytes()) == again.mark["bytes"]


def test_each_item_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = appended.write_all
    monkeypatch.setattr(appended, "write_all", lambda file, data: (written.append(len(data)), write(file, data))[1])
    rows = AppendedList(tmp_path / "rows.jsonl")
    for number in range(20):
        rows.extend([number])
    assert sum(written) == (tmp_path / "rows.jsonl").stat().st_size


@pytest.mark.parametrize("damage", ["flipped", "short", "gone"])
def test_damage_is_found(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "rows.jsonl"
    rows = AppendedList(path)
    rows.extend([1, 2, 3])
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if damage == "short" else b"7" + content[1:])
    assert AppendedList(path).load(rows.mark) is None


def test_what_a_kill_left_behind_the_mark_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = AppendedList(path)
    rows.extend(["first"])
    with open(path, "ab") as file:
        file.write(b'"torn')
    again = AppendedList(path)
    assert again.load(rows.mark) == ["first"]
    again.extend(["second"])
    assert AppendedList(path).load(again.mark) == ["first", "second"]


def test_a_disk_that_refuses_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, os.strerror(28))

    rows = AppendedList(tmp_path / "rows.jsonl")
    rows.extend([1])
    mark = rows.mark
    monkeypatch.setattr(appended, "write_all", full)
    with pytest.raises(RunError, match="cannot write"):
        rows.extend([2])
    assert rows.mark == mark and AppendedList(tmp_path / "rows.jsonl").load(mark) == [1]
