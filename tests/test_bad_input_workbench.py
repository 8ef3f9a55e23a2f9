"""A recipe, a network, data, weights or a text that cannot work ends in one line, and nothing is lost."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path

import bad_recipes
import bad_workbench
import pytest

from ramet.cli import main
from ramet.errors import ConfigError
from ramet.exporting import onnx
from ramet.runs import Run
from ramet.training import acceleration


def listing(folder: Path) -> dict[str, str]:
    """Every file and folder, with a digest of its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run and a network that are there already, in which all that is written would be seen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    with Run.create(tmp_path / "run", "grow", {"data": "digits"}) as run:
        run.records.append("result", score=0.5)
    (tmp_path / "run" / "networks").mkdir()
    (tmp_path / "run" / "networks" / "weights.safetensors").write_bytes(b"kept")
    (tmp_path / "net.safetensors").write_bytes(bad_workbench.joint_network())
    return tmp_path


def check_refusal(provoke: Callable[[], object], phrase: str) -> None:
    with warnings.catch_warnings(), pytest.raises(ConfigError) as caught:
        warnings.simplefilter("ignore")
        provoke()
    message = str(caught.value)
    assert phrase in message
    assert "\n" not in message and "Traceback" not in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("verb", bad_recipes.VERBS)
@pytest.mark.parametrize("row", bad_recipes.ROWS, ids=lambda row: row.name)
def test_a_recipe_that_cannot_work_is_refused_by_every_verb(row: bad_recipes.BadRecipe, verb: str, work: Path) -> None:
    before = listing(work)
    check_refusal(lambda: bad_recipes.VERBS[verb](work, bad_recipes.small(**row.options)), row.phrase)
    assert listing(work) == before


@pytest.mark.parametrize("row", bad_workbench.USES, ids=lambda row: row.name)
def test_what_cannot_work_is_refused_in_one_line(row: bad_workbench.BadUse, work: Path) -> None:
    before = listing(work)
    check_refusal(lambda: row.provoke(work), row.phrase)
    after = listing(work)
    assert {path: after.get(path) for path in before} == before
    assert {Path(path).name for path in after.keys() - before.keys()} <= bad_workbench.MADE


@pytest.mark.parametrize("row", bad_workbench.COMMANDS, ids=lambda row: row.name)
def test_a_command_that_cannot_work_leaves_the_run_that_it_would_replace(
    row: bad_workbench.BadCommand, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = row.make(work)
    before = listing(work)
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--out", str(work / "run"), "--overwrite"])
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and out == ""
    assert err.startswith("ramet: ") and err.count("\n") == 1 and err.endswith("\n"), err
    assert row.phrase in err and "Traceback" not in err
    assert listing(work) == before


@pytest.mark.parametrize("verb", bad_recipes.VERBS)
def test_a_precision_that_would_be_emulated(verb: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "has_bfloat16", lambda device: False)
    before = listing(work)
    recipe = bad_recipes.small(precision="bfloat16")
    check_refusal(lambda: bad_recipes.VERBS[verb](work, recipe), "cpu would emulate it, slowly")
    assert listing(work) == before


@pytest.mark.parametrize(
    "arguments", [["grow", "--budget", "onnx-latency=2ms"], ["search", "--budget", "onnx-latency=2ms"],
                  ["learn", "--onnx"], ["grow", "--onnx"], ["search", "--onnx"]], ids=" ".join,
)  # fmt: skip
def test_onnx_without_what_it_needs(
    arguments: list[str], work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onnx, "MODULES", ("onnx", "no_such_package"))
    before = listing(work)
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--out", str(work / "run"), "--overwrite"])
    assert caught.value.code == 2 and "pip install 'ramet[onnx]'" in capsys.readouterr().err
    assert listing(work) == before


def test_rows_are_many_and_their_names_unique() -> None:
    names = [row.name for rows in (bad_recipes.ROWS, bad_workbench.USES, bad_workbench.COMMANDS) for row in rows]
    assert len(names) == len(set(names)) and len(names) >= 40


def test_the_makers_are_good_without_their_fault(work: Path) -> None:
    """Otherwise a row could be refused for a fault of the maker."""
    for name, verb in bad_recipes.VERBS.items():
        verb(work / name)
    bad_workbench.run_good_makers(work)
