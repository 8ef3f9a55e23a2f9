"""Every row of bad_data.py ends in one clear line, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import bad_data
import pytest

from ramet.data import load
from ramet.errors import DataError


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_size) for path in folder.rglob("*"))


@pytest.mark.parametrize("row", bad_data.ROWS, ids=lambda row: row.name)
def test_bad_data_is_refused_in_one_line(
    row: bad_data.BadData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAMET_DATA", raising=False)
    arguments = row.make(tmp_path)
    before = listing(tmp_path)
    with pytest.raises(DataError) as caught:
        load(**arguments)
    message = str(caught.value)
    assert row.phrase in message
    assert "\n" not in message
    assert listing(tmp_path) == before


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in bad_data.ROWS]
    assert len(names) == len(set(names))
    assert len(names) >= 60


def test_the_makers_are_good_without_their_fault(tmp_path: Path) -> None:
    """Otherwise a row could be refused for a fault of the maker."""
    for name in ("idx", "cifar", "npz", "folders"):
        (tmp_path / name).mkdir()
    load(**bad_data.write_idx(tmp_path / "idx"))
    load(**bad_data.write_cifar10(tmp_path / "cifar"))
    load(**bad_data.npz(tmp_path / "npz", x=bad_data.images(), y=bad_data.labels()))
    load(str(bad_data.class_folders(tmp_path / "folders")))
