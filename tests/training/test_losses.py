"""Losses by name, each by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ramet.errors import ConfigError
from ramet.training import Recipe

OUTPUTS = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]], dtype=torch.float64)
CLASSES = torch.tensor([1, 2])


def value(text, outputs, targets):
    return float(Recipe(loss=text).loss_for(targets)(outputs, targets))


def log_share(row, place):
    return row[place] - math.log(sum(math.exp(each) for each in row))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_with_smoothing(smoothing):
    rows = OUTPUTS.tolist()
    by_hand = [
        -(1 - smoothing) * log_share(row, target) - smoothing / 3 * sum(log_share(row, place) for place in range(3))
        for row, target in zip(rows, CLASSES.tolist(), strict=True)
    ]
    assert value(f"cross-entropy:smoothing={smoothing}", OUTPUTS, CLASSES) == pytest.approx(sum(by_hand) / 2)


def test_every_token_counts():
    outputs, targets = OUTPUTS.view(1, 2, 3).repeat(4, 1, 1), CLASSES.view(1, 2).repeat(4, 1)
    for logits in (outputs, outputs.mT):  # as transformers have them, and as torch does
        assert value("cross-entropy", logits, targets) == pytest.approx(value("cross-entropy", OUTPUTS, CLASSES))


def test_errors_of_numbers():
    outputs, targets = torch.tensor([[1.0], [5.0]]), torch.tensor([[0.5], [2.0]])
    assert value("squared-error", outputs, targets) == pytest.approx((0.25 + 9) / 2)
    assert value("absolute-error", outputs, targets) == pytest.approx((0.5 + 3) / 2)
    assert value("huber:delta=2", outputs, targets) == pytest.approx((0.125 + 2 * (3 - 1)) / 2)


@pytest.mark.parametrize("loss", ["squared-error", "absolute-error", "huber", "binary"])
def test_a_single_number_may_have_an_axis_or_not(loss):
    outputs, targets = torch.tensor([1.0, 5.0, 2.0]), torch.tensor([0.5, 2.0, 4.0])
    expected = value(loss, outputs, targets)
    assert value(loss, outputs[:, None], targets) == expected == value(loss, outputs, targets[:, None])
    with pytest.raises(ConfigError, match=r"of shape \[3\], but its outputs have shape \[3, 2\]"):
        value(loss, torch.zeros(3, 2), targets)


def test_several_labels():
    outputs, targets = torch.tensor([[0.0, 2.0]]), torch.tensor([[1, 0]])
    by_hand = (-math.log(0.5) - math.log(1 - 1 / (1 + math.exp(-2)))) / 2
    assert value("binary", outputs, targets) == pytest.approx(by_hand)


def test_a_function_in_a_file(tmp_path):
    code = "def cubed(outputs, targets, scale=1.0):\n    return scale * (outputs - targets).abs().pow(3).mean()\n"
    (tmp_path / "my_losses.py").write_text(code)
    text = f"{tmp_path / 'my_losses.py'}:cubed:scale=2"
    assert value(text, torch.tensor([3.0]), torch.tensor([1.0])) == 16.0
