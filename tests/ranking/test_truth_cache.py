"""A cache of truths that cannot be written: the user's own choice is refused, a default one does without."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from ramet.errors import ConfigError, RunError
from ramet.jobs.rank.job import check_folder
from ramet.ranking.truth import TruthCache
from ramet.spaces import make_space


def setup() -> SimpleNamespace:
    named = {"fingerprint": lambda: "f", "former_fingerprint": lambda: "g", "describe": lambda: {}}
    return SimpleNamespace(is_told_by_name=True, space=make_space("cells64"), **named)


def test_a_home_that_cannot_be_written_ends_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").touch()  # no folder can be made in it
    cache = TruthCache(tmp_path / "home" / "truth", setup(), is_needed=False)
    with caplog.at_level(logging.WARNING):
        cache.put(3, 0, {"error": 0.5})
        cache.put(4, 0, {"error": 0.25})
    assert cache.get(3, 0) == {"error": 0.5} and cache.get(4, 0) == {"error": 0.25}
    assert [record.message.partition(":")[0] for record in caplog.records] == ["No truth is kept for other runs"]
    with pytest.raises(RunError, match="must be readable and writable, but: Not a directory"):
        TruthCache(tmp_path / "home" / "truth", setup()).put(3, 0, {"error": 0.5})


def test_a_cache_that_the_user_named_is_tried_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_folder(tmp_path / "new" / "cache")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for anybody but root
    with pytest.raises(ConfigError, match="truth_cache must be writable"):
        check_folder(tmp_path / "new" / "cache")
