"""Code by name, and the rule that what data name runs only with trust."""

from __future__ import annotations

import sys

import pytest

from ramet.errors import ConfigError
from ramet.registry import anchored, anchored_parts, reference_to, resolve_reference


def test_nothing_is_imported_without_trust(tmp_path):
    path = tmp_path / "left_alone.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef f(): pass\n")
    with pytest.raises(ConfigError, match=rf"--trust \(trust=True\), but this would run '{path}:f'"):
        resolve_reference(f"{path}:f", trusted=False)
    assert "left_alone" not in sys.modules and not (tmp_path / "ran").exists()
    resolve_reference(f"{path}:f", trusted=True)
    assert (tmp_path / "ran").exists()


def test_a_reference_leads_back():
    assert resolve_reference(reference_to(anchored), trusted=True) is anchored
    assert reference_to(lambda: None) is None


def test_files_are_named_from_the_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    (tmp_path / "none").touch()
    here = str(tmp_path / "mine.py")
    assert anchored("mine.py:Guard:rate=1") == f"{here}:Guard:rate=1"
    assert anchored_parts("none+mine.py:Guard", {"none"}) == f"none+{here}:Guard"
    assert anchored_parts("naive,mine.py:M:rate=1,other=2", ()) == f"naive,{here}:M:rate=1,other=2"
    assert anchored_parts("") == ""
