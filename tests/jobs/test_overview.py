"""Runs under a folder: their state, their best figure, their size; and what clean may take away."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sample_runs import write_search

from ramet.cli.main import main
from ramet.errors import ConfigError
from ramet.jobs.overview import find_runs, is_running, overview
from ramet.runs import Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished, an interrupted and a damaged run, and a folder that is none."""
    runs = tmp_path / "runs"
    write_search(runs / "deep" / "done", errors={"a": 0.3, "b": 0.2})
    with Run.create(runs / "half", "search", {"seed": 1}) as run:
        run.records.append("epoch/0", loss=0.5)
    with Run.create(runs / "torn", "search", {"seed": 1}):
        pass
    (runs / "torn" / "records.jsonl").write_text("{}\nnot JSON\n")
    (runs / "other").mkdir()
    (runs / "other" / "config.json").write_text("{}")
    os.utime(runs / "half" / "records.jsonl", (0, 0))
    return runs


def states(folder: Path) -> dict[str, str]:
    return {str(run.path.relative_to(folder)): run.state for run in find_runs(folder)}


def test_states(folder):
    assert states(folder) == {"deep/done": "finished", "half": "interrupted", "torn": "damaged"}


def test_a_run_is_running_while_it_is_locked(tmp_path):
    run = Run.create(tmp_path / "run", "search", {})
    assert is_running(run.path) and overview(run.path).state == "running"
    run.close()
    assert not is_running(run.path) and overview(run.path).state == "interrupted"


def test_a_lock_of_a_dead_process_is_not_asked(tmp_path, monkeypatch):
    run = Run.create(tmp_path / "run", "search", {})
    monkeypatch.setattr("ramet.jobs.overview._is_alive", lambda process: False)
    monkeypatch.setattr("fcntl.flock", lambda *arguments: pytest.fail("the lock was asked"))
    assert not is_running(run.path)
    monkeypatch.undo()
    run.close()


def test_the_best_figure_and_the_order(folder):
    runs = find_runs(folder)
    (done,) = [run for run in runs if run.state == "finished"]
    assert (done.best.name, done.best.value, done.best.of) == ("validation error", 0.2, "b")
    assert runs[-1].path.name == "half", "what wrote last comes first"
    files = [path for path in (folder / "half").rglob("*") if path.is_file()]
    assert overview(folder / "half").num_bytes == sum(path.stat().st_size for path in files)


def test_an_edited_result_and_a_stranger_job_do_not_hide_the_others(folder):
    with Run.create(folder / "edited", "search", {"seed": 1}) as run:
        run.records.append("result", trained="none", candidates=3)
    with Run.create(folder / "mine", "mine", {"seed": 1}) as run:
        run.records.append("result", figure=1.0)
    found = states(folder)
    assert found["edited"] == "damaged" and found["mine"] == "finished" and found["deep/done"] == "finished"


def test_a_single_run_is_a_folder_of_runs(folder):
    assert [run.path for run in find_runs(folder / "half")] == [folder / "half"]


def test_the_command(folder, capsys):
    main(["runs", str(folder)])
    printed = capsys.readouterr().out
    assert "deep/done" in printed and "validation error 20.0 %" in printed and "line 1 is damaged" in printed
    main(["runs", str(folder), "--json"])
    told = {entry["state"]: entry for entry in json.loads(capsys.readouterr().out)["runs"]}
    assert told["finished"]["best"] == {"name": "validation error", "value": 0.2, "of": "b"}
    assert told["interrupted"]["seconds"] > 1e9


def test_clean_needs_to_be_told_and_to_be_sure(folder, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["runs", "clean", str(folder), "--yes"])
    assert refused.value.code == 2 and "must be told which" in capsys.readouterr().err
    before = states(folder)
    main(["runs", "clean", str(folder), "--state", "interrupted"])
    assert "would remove" in capsys.readouterr().out and states(folder) == before


def test_clean_by_state_and_age(folder, capsys):
    main(["runs", "clean", str(folder), "--older-than", "1", "--yes"])
    assert set(states(folder)) == {"deep/done", "torn"}
    main(["runs", "clean", str(folder), "--state", "damaged", "--state", "interrupted", "--yes", "--json"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["runs"] == [str(folder / "torn")]
    assert set(states(folder)) == {"deep/done"} and (folder / "other" / "config.json").exists()


def test_clean_leaves_a_running_run(folder):
    with Run.open(folder / "half"):
        main(["runs", "clean", str(folder), "--older-than", "0", "--yes"])
        assert (folder / "half").exists()
        with pytest.raises(ConfigError, match="is running"):
            from ramet.jobs.overview import clean

            clean(overview(folder / "half"), checkpoints_only=False)


def test_checkpoints_of_finished_runs_alone(folder, capsys):
    for name in ("deep/done", "half"):
        (folder / name / "checkpoints" / "part").mkdir(parents=True)
        (folder / name / "checkpoints" / "part" / "step.json").write_text("x" * 100)
    main(["runs", "clean", str(folder), "--checkpoints", "--yes"])
    assert "100 B are free now" in capsys.readouterr().out
    assert not (folder / "deep/done/checkpoints").exists() and (folder / "half/checkpoints/part").exists()
    main(["report", str(folder / "deep/done"), "--json"])
    assert json.loads(capsys.readouterr().out)["best"] == "b"


def test_no_folder_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["runs", str(tmp_path / "nowhere")])
    assert refused.value.code == 2 and "runs are looked for in a folder" in capsys.readouterr().err


def test_before_the_first_run_there_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["runs"])
    main(["runs", "clean", "--checkpoints"])
    assert capsys.readouterr().out == "There is no run in runs.\nThere is nothing to remove.\n"
