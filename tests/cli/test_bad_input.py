"""Every row of bad_input.py ends in one clear line and exit code 2, and nothing is written."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import bad_data
import bad_growth
import bad_input
import bad_streams
import pytest

from ramet.cli import main

ROOT = Path(__file__).parents[2]


def expressible() -> list[bad_input.BadInput]:
    rows = []
    for bad in bad_data.ROWS:
        with TemporaryDirectory() as folder:
            if bad_input.fits_a_command_line(bad, Path(folder)):
                rows.append(bad_input.data_row(bad))
    return rows


ROWS = [*bad_input.ROWS, *bad_growth.ROWS, *bad_streams.ROWS, *expressible()]


def listing(folder: Path) -> dict[str, str]:
    """Every file and folder, with a digest of its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds all that a command could write to: where it runs, and the user's own."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.delenv("RAMET_DATA", raising=False)
    monkeypatch.delenv("RAMET_STORAGE", raising=False)
    return tmp_path


def check_refusal(row: bad_input.BadInput, code: object, stdout: str, stderr: str) -> None:
    assert stderr.startswith("ramet: "), stderr
    assert stderr.endswith("\n") and stderr.count("\n") == 1, f"more than one line: {stderr}"
    assert row.phrase in stderr
    assert "Traceback" not in stderr and "s3cret" not in stderr
    assert stdout == ""
    assert code == 2


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_bad_input_is_refused_in_one_line(
    row: bad_input.BadInput, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = row.make(home / "work")
    before = listing(home)
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    check_refusal(row, caught.value.code, *capsys.readouterr())
    assert listing(home) == before


IN_A_PROCESS = ("unknown command", "--epochs ten", "data: NaN pixel", "overwrite: a folder that is no run")


@pytest.mark.parametrize(
    "name", [IN_A_PROCESS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in IN_A_PROCESS[1:])]
)
def test_a_process_of_its_own_says_the_same(name: str, home: Path) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    arguments = row.make(home / "work")
    before = listing(home)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "ramet", *arguments], capture_output=True, text=True, env=environment, timeout=600
    )
    check_refusal(row, done.returncode, done.stdout, done.stderr)
    assert listing(home) == before


def test_rows_are_many_and_their_names_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert len(names) >= 60


def test_the_makers_are_good_without_their_fault(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a row could be refused for a fault of the maker."""
    (home / "good_code.py").write_text(bad_input.GOOD_CODE)
    (home / "truth.csv").write_text(
        "arch,score\n" + "".join(f"1={name},{score}\n" for name, score in (("wide", 0.4), ("slim", 0.6)))
    )
    options = ["--space", f"{home / 'good_code.py'}:network", "--truth", f"table:{home / 'truth.csv'}:score"]
    main(["rank", *options, "--train-size", "40", "--epochs", "1", "--instances", "1", "--out", str(home / "run")])
    assert "Report: " in capsys.readouterr().out
    main(["resume", str(home / "run"), "--trust"])
    assert "Report: " in capsys.readouterr().out
