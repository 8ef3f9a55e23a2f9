"""`ramet list`: names that a stranger can read, by the word that the help has."""

from __future__ import annotations

import pytest

from ramet.cli import main
from ramet.registry import KINDS


def test_every_kind_is_apart_from_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list"])
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[: len(KINDS)]} == set(KINDS)
    assert len({len(line) - len(line.split(maxsplit=1)[1]) for line in lines[: len(KINDS)]}) == 1


@pytest.mark.parametrize(("plural", "kind"), [("guards", "guard"), ("strategies", "strategy"), ("data", "data")])
def test_the_words_of_the_help_are_taken(plural: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", plural])
    several = capsys.readouterr().out
    main(["list", kind])
    assert several == capsys.readouterr().out != ""


def test_every_strategy_of_the_help_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "strategy"])
    listed = capsys.readouterr().out
    for name in ("staged", "enas", "nao", "evolution", "random", "darts"):
        assert f"{name}  (built-in)" in listed
