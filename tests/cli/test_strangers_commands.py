"""A stranger's parts, each in a file outside the repository, work from the command line."""

from __future__ import annotations

import json

import pytest

from ramet.cli.main import main

SMALL = ["--train-size", "96", "--eval-size", "48", "--json"]
TINY_SPACE = ["--channels", "2", "--cells", "1", "--nodes", "1"]
RANK = ["rank", *SMALL, "--epochs", "1", "--instances", "2", "--last-steps", "2", "--last-epochs", "1"]
RANK += ["--truth", "none", "--fine-tune-steps", "0"]
SEARCH = ["search", *SMALL, "--epochs", "2", "--warmup-epochs", "1", "--models-per-epoch", "2"]
SEARCH += ["--strategy-steps", "1", "--archs-per-step", "2", "--candidates", "2", "--final", "1", "--final-epochs", "1"]
GROW = ["grow", *SMALL, "--epochs", "1", "--network", "mlp:4,4", "--budget", "neurons=12,step=2"]
LEARN = ["learn", *SMALL, "--epochs", "1", "--network", "mlp:8", "--stream", "split-digits:2"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty folder; its result as JSON, its run's configuration, and the run's folder."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str):
        folder = tmp_path / "run"
        main([*arguments, "--out", str(folder)])
        return json.loads(capsys.readouterr().out), json.loads((folder / "config.json").read_text()), folder

    return command


def resumed(folder, capsys):
    """The result that resuming a finished run prints; without trust it is refused and shows what would run."""
    with pytest.raises(SystemExit) as refused:
        main(["resume", str(folder), "--json"])
    assert refused.value.code == 2
    assert "runs only with --trust" in (message := capsys.readouterr().err) and "strange_" in message
    main(["resume", str(folder), "--json", "--trust"])
    return json.loads(capsys.readouterr().out)


def test_a_guard(stranger, run, capsys):
    result, config, folder = run(*RANK, *TINY_SPACE, "--guard", f"{stranger('guard')}:rate=0.5")
    assert result["guard"]["slowed"] > 0 and "Slowing:rate=0.5" in json.dumps(config)
    assert resumed(folder, capsys) == result


def test_a_guard_in_worker_processes(stranger, run):
    arguments = [*RANK, *TINY_SPACE, "--guard", stranger("guard"), "--workers", "2"]
    assert run(*arguments)[0]["guard"]["slowed"] > 0


def test_a_strategy(stranger, run, capsys):
    result, _, folder = run(*SEARCH, *TINY_SPACE, "--strategy", f"{stranger('strategy')}:radius=2")
    assert resumed(folder, capsys) == result


def test_a_space(stranger, run, capsys):
    result, _, folder = run(*RANK, "--space", f"{stranger('space')}:num_widths=4")
    assert result["children"] == ["w0", "w1", "w2", "w3"]
    assert resumed(folder, capsys) == result


def test_a_growth(stranger, run, capsys):
    result, _, folder = run(*GROW, "--method", f"{stranger('growth')}:eager=false")
    assert resumed(folder, capsys) == result


def test_a_continual_method(stranger, run, capsys):
    result, _, folder = run(*LEARN, "--method", f"{stranger('method')}:note=gently")
    assert "gently" in (folder / "records.jsonl").read_text()
    assert resumed(folder, capsys) == result
