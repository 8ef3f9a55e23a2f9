"""What the command line says when it ends early: one line, and where to go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ramet.cli import main
from ramet.cli.lines import MOST_CHARACTERS
from ramet.jobs import Job, runner
from ramet.runs import Run


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(str(caught.value.code)), capsys.readouterr().err


def interrupted(*args: object, **options: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_says_where_the_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my run"

    def start(job: Job, out: Path, **options: object) -> None:
        Run.create(out, job.kind, job.to_json()).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "start", start)
    monkeypatch.setattr(runner, "resume", interrupted)
    code, line = said(["grow", "--out", str(out)], capsys)
    assert (code, line.count("\n")) == (130, 1)
    assert line == f"ramet: interrupted; the run is in {out}, and `ramet resume '{out}'` goes on.\n"
    assert said(["resume", str(out)], capsys) == (130, line)


def test_ctrl_c_before_there_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "start", interrupted)
    code, line = said(["grow", "--out", str(tmp_path / "run")], capsys)
    assert (code, line) == (130, "ramet: interrupted, before anything was written.\n")


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:1] . can't allocate memory: you tried 4 bytes\nmore")],
    ids=["python", "torch"],
)
def test_a_full_memory_is_one_line(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(runner, "start", start)
    code, line = said(["grow", "--out", str(tmp_path / "run")], capsys)
    assert code == 1 and line.count("\n") == 1
    assert line.startswith("ramet: the memory must suffice for what is asked, but did not")


def test_a_line_is_cut_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(["resume", "/nowhere/\x1b[2J\x07" + "x" * 150 + "/" + "y" * 150 + "/" + "z" * 150], capsys)
    assert code == 2 and line.isascii() and line.strip().isprintable()
    assert "/nowhere/\\x1b[2J\\x07xxx" in line and line.endswith("does not.\n")
    assert len(line) <= len("ramet: \n") + MOST_CHARACTERS


def test_closed_standard_streams(tmp_path: Path) -> None:
    """Files that are opened afterwards must not get the numbers of the streams."""
    code = f"""
import os, sys
for number in (0, 1, 2):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = None
from ramet.cli.lines import open_closed_streams
open_closed_streams()
with open({str(tmp_path / "file")!r}, "w") as file:
    assert file.fileno() > 2
    print("to standard output")
    print("to standard error", file=sys.stderr)
    assert sys.stdin.read() == ""
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init"], "`ramet init` needs KIND, one of space, network, stream, recipe; `ramet init --help` says more."),
        (["resume"], "`ramet resume` needs DIRECTORY; `ramet resume --help` says more."),
        (["data", "fetch"], "`ramet data fetch` needs NAME; `ramet data fetch --help` says more."),
        (["compare", "--report"], "Command compare parameter --report requires an argument."),  # cyclopts' own words
    ],
)
def test_what_a_command_lacks_has_the_name_of_its_usage(arguments, words, capsys):
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    said = capsys.readouterr().err.replace('"', "")  # versions of cyclopts differ in what they put into quotation marks
    assert refused.value.code == 2 and said == f"ramet: {words}\n"
