"""A choice of a user's that cannot work is refused by name, before anything is trained; and rank's own dead ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.cli import main
from ramet.runs import read_records

CODE = """
import torch
from torch import nn
from ramet.spaces import Choice

class Bad(nn.Module):
    def forward(self, x):
        return x * float("nan")

def network(in_channels, num_classes, bad):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3),
        Choice({"relu": nn.ReLU(), "tanh": nn.Tanh()}, name="first"),
        Choice({"conv": nn.Conv2d(4, 4, 1), "bad": bad}, name="second"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, num_classes),
    )

def shape(in_channels, num_classes):
    return network(in_channels, num_classes, nn.Conv2d(4, 3, 1))

def not_a_number(in_channels, num_classes):
    return network(in_channels, num_classes, Bad())
"""
SMALL = ["--train-size", "40", "--eval-size", "20"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == code
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("verb", ["rank", "search"])
@pytest.mark.parametrize(
    ("name", "words"), [("shape", "mat1 and mat2 shapes"), ("not_a_number", "gives values that are not finite")]
)
def test_the_child_and_the_choice_are_named(
    verb: str, name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"choices_that_fail_{verb}_{name}.py"  # a loaded module's name is not taken twice
    path.write_text(CODE)
    space = f"{path}:{name}"
    line = refused(capsys, verb, "--space", space, *SMALL, "--out", str(tmp_path / "run"))
    assert "first=tanh,second=bad, by its choice of second=bad," in line and words in line
    assert "learning rate" not in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("verb", ["rank", "search"])
def test_a_text_is_no_data_of_images(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, verb, "--data", "ptb", "--out", str(tmp_path / "run"))
    assert "text" in line and "did you mean" not in line


def test_a_training_that_diverges_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but its records is left: no table of dashes, no star, no exit code 0."""
    arguments = ["rank", *SMALL, "--truth", "none", "--instances", "1", "--fine-tune-steps", "0", "--channels", "2"]
    arguments += ["--cells", "1", "--epochs", "2", "--last-steps", "1", "--batch-size", "10"]
    line = refused(capsys, *arguments, "--learning-rate", "1e9", "--out", str(tmp_path / "run"), code=1)
    assert "the training has diverged" in line or "must stay finite" in line
    assert not any(record["key"] == "result" for record in read_records(tmp_path / "run"))
    assert not (tmp_path / "run" / "report.html").exists()
