"""Each starter file that `ramet init` writes runs as it is, by the command that it names."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from ramet.cli.main import main

KINDS = ("space", "network", "stream", "recipe")
SMALL = ["--train-size", "96", "--eval-size", "48", "--epochs", "1", "--json"]
MORE = {"space": ["--truth", "none", "--last-steps", "2", "--fine-tune-steps", "0", "--instances", "1"]}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def command_after(printed: str) -> list[str]:
    """The arguments of the command that `ramet init` says to try, without the options that make it small here."""
    (line,) = [line for line in printed.splitlines() if line.startswith("Try: ramet ")]
    return shlex.split(line.removeprefix("Try: ramet "))


def test_the_starters_are_the_kinds():
    from ramet.cli import starters

    assert {path.stem for path in Path(starters.__file__).parent.glob("*.py")} - {"__init__"} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_starter_runs_by_the_command_that_it_names(kind, capsys):
    main(["init", kind, f"my_{kind}.py"])
    printed = capsys.readouterr().out
    assert f"Written: my_{kind}.py" in printed
    arguments = command_after(printed)
    assert any(f"my_{kind}." in argument for argument in arguments)
    while "--epochs" in arguments:
        del arguments[(place := arguments.index("--epochs")) : place + 2]
    if "--instances" in arguments:
        del arguments[(place := arguments.index("--instances")) : place + 2]
    main([*arguments, *SMALL, *MORE.get(kind, []), "--out", "run"])
    result = json.loads(capsys.readouterr().out)
    assert result and Path("run/report.html").exists()


def test_nothing_is_overwritten(capsys):
    Path("stream.json").write_text("[]")
    with pytest.raises(SystemExit) as refused:
        main(["init", "stream"])
    assert refused.value.code == 2 and "stream.json is there already" in capsys.readouterr().err
    assert not Path("stream.py").exists() and Path("stream.json").read_text() == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["space", "my-space.py"], "must be a Python module"),
        (["space", "nowhere/space.py"], "the folder of a starter file must be there"),
        (["guard"], "Invalid value"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["init", *arguments])
    assert refused.value.code == 2 and words in capsys.readouterr().err
    assert list(Path().iterdir()) == []
