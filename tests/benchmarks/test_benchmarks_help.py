"""Every benchmark that takes options explains them."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    path.relative_to(ROOT)
    for folder in ("benchmarks", "campaigns")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if {"ArgumentParser(", "def main("}
    <= set(re.findall(r"ArgumentParser\(|def main\(", path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_help_is_printed(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(".".join(file.with_suffix("").parts))
    monkeypatch.setattr(sys, "argv", [str(file), "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out
