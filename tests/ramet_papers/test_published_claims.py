"""The claims travel with the package: they are read in a folder that has none."""

from __future__ import annotations

import json
from pathlib import Path

from ramet.cli.main import main
from ramet_papers import PUBLISHED, read_claims

ROOT = Path(__file__).parents[2]


def test_claims_outside_the_clone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["reproduce", "--claims", "--json"])
    printed = capsys.readouterr()
    assert json.loads(printed.out)["claims"] == read_claims(ROOT / "results") == read_claims(PUBLISHED) != []
    assert "as ramet was published" in printed.err


def test_claims_of_ones_own_come_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = read_claims(PUBLISHED)[:1]
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "claims.json").write_text(json.dumps({"claims": own}))
    main(["reproduce", "--claims", "--json"])
    printed = capsys.readouterr()
    assert json.loads(printed.out)["claims"] == own and printed.err == ""
