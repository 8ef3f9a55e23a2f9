"""A damaged file of weights is refused in one line, whatever torch's own reader makes of it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from ramet.errors import ConfigError
from ramet.training.weights import read_weights


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x02t.", b"\x80\x02.", b"PK\x03\x04"])
def test_damaged_files_are_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="weights must be a") as caught:
        read_weights(path)
    assert "\n" not in str(caught.value) and not str(caught.value).endswith(": "), "a reason is given"


def test_an_archive_that_unpacks_to_more_than_it_has(tmp_path: Path) -> None:
    """A megabyte of zeros in a few bytes: of a gigabyte of such a file, the memory of any machine."""
    torch.save({"weight": torch.zeros(2**18)}, tmp_path / "plain.pt")
    assert read_weights(tmp_path / "plain.pt")["weight"].shape == (2**18,)
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    with pytest.raises(ConfigError, match="torch compresses nothing"):
        read_weights(packed)
