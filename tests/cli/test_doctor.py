"""`ramet doctor` says what is here and what is missing, and fails when something does not work."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from ramet.cli import doctor, self_test
from ramet.cli.main import main

ROOT = Path(__file__).parents[2]


def test_every_extra_of_the_package_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(doctor.EXTRAS) == set(project["optional-dependencies"]) - {"dev", "docs"}
    (table,) = re.findall(r"^\| extra \|.*?\n\n", (ROOT / "docs" / "tools.md").read_text(), re.MULTILINE | re.DOTALL)
    explained = [
        name for row in table.strip().splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])
    ]
    assert sorted(explained) == sorted(doctor.EXTRAS)


def test_it_says_what_is_here(capsys, tmp_path):
    main(["doctor", "--no-self-test", "--data-dir", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["environment"]["torch"] == metadata.version("torch")
    assert [entry["name"] for entry in told["data"] if entry["present"]] == ["digits"]
    assert {entry["name"] for entry in told["extras"]} == set(doctor.EXTRAS)
    assert told["self_test"] == []


def test_a_missing_extra_comes_with_its_command(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_is_installed", lambda library: library != "psycopg")
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIREMENTS)
    assert {extra.name: extra.missing for extra in doctor.find_extras() if extra.missing} == {"postgres": ["psycopg"]}
    main(["doctor", "--no-self-test"])
    assert "pip install 'ramet[postgres]'" in capsys.readouterr().out


REQUIREMENTS = [
    "torch>=2.6",
    "optuna>=4.4; extra == 'optuna'",
    'optuna>=4.4; extra == "postgres"',
    'psycopg[binary]>=3.1; python_version < "4" and extra == "postgres"',
    'psycopg[binary]>=3.1; extra == "dev"',
]


@pytest.mark.slow
def test_the_self_test_passes(capsys):
    main(["doctor"])
    printed = capsys.readouterr().out
    assert printed.count("  works     ") == len(self_test.CHECKS) and "All that was tried works." in printed


def test_what_does_not_work_is_said_and_the_rest_is_tried(monkeypatch, capsys):
    def broken():
        raise RuntimeError("no such device\nmore")

    monkeypatch.setattr(self_test, "CHECKS", (broken, self_test.report_page))
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    printed = capsys.readouterr().out
    assert ended.value.code == 1 and "FAILED    RuntimeError: no such device\n" in printed
    assert "  works     a report" in printed and "1 of 2 do not work." in printed


def test_the_list_of_data_has_texts(capsys, tmp_path):
    main(["data", "list", "--data-dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    (text,) = [line for line in lines if line.startswith("text:ptb")]
    assert "not here" in text and any("text:FILE" in line for line in lines)
    (tmp_path / "ptb").mkdir()
    for role in ("train", "valid", "test"):
        (tmp_path / "ptb" / f"ptb.{role}.txt").write_text("a b c\n")
    main(["data", "list", "--data-dir", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["texts"][0]["present"] is True
