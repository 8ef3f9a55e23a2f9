"""A damaged file of weights is refused in one line, whatever torch's own reader makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.errors import ConfigError
from ramet.training.weights import read_weights


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x02t.", b"\x80\x02.", b"PK\x03\x04"])
def test_damaged_files_are_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="weights must be a") as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)
