"""What the command line does to the options of every command."""

import json
from pathlib import Path

import numpy as np
import pytest

from ramet.cli import main
from ramet.registry import anchored


def test_a_path_is_anchored_and_a_name_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "digits"):
        Path(name).touch()
    assert anchored("mine.py:network") == f"{tmp_path / 'mine.py'}:network"
    assert anchored("digits", names={"digits"}) == "digits"
    assert anchored("digits") == str(tmp_path / "digits")
    assert anchored("missing.npz") == "missing.npz"
    assert anchored("") == ""


def test_a_run_of_relative_paths_is_resumed_from_another_folder(tmp_path, monkeypatch, capsys):
    generator = np.random.default_rng(0)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    np.savez(here / "mine.npz", x=generator.random((60, 6, 6), dtype=np.float32), y=np.arange(60) % 2)
    small = "--epochs 1 --instances 1 --last-steps 1 --last-epochs 1 --fine-tune-steps 0 --truth none --children 2"
    monkeypatch.chdir(here)
    main(["rank", "--data", "mine.npz", "--truth-cache", "cache", "--out", "run", "--channels", "2", *small.split()])
    capsys.readouterr()
    monkeypatch.chdir(elsewhere)
    main(["resume", str(here / "run"), "--json"])
    assert len(json.loads(capsys.readouterr().out)["children"]) == 2
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("options", [["--out", "X"], ["--overwrite"], ["--seed", "5"], ["--seed", "5", "--out", "X"]])
def test_resume_refuses_what_it_would_ignore(options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["resume", "run", *options])
    assert end.value.code == 2 and list(tmp_path.iterdir()) == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and options[0] in said


@pytest.mark.parametrize("length", [300, 5000])
def test_a_path_that_is_too_long_is_bad_input(length, capsys):
    with pytest.raises(SystemExit) as end:
        main(["rank", "--data", "x" * length + ".npz"])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_summaries_of_commands_are_those_of_their_jobs():
    """They are written down so that `ramet --help` need not import the jobs."""
    from ramet.jobs import JOBS, SUMMARIES, job_class

    # Scores of one's own are judged by `ramet rank --scores`.
    assert list(SUMMARIES) == [kind for kind in JOBS if kind != "scores"]
    for kind, summary in SUMMARIES.items():
        assert job_class(kind).help().strip().splitlines()[0] == summary
