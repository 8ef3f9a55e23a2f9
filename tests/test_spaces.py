"""Cells64 against the paper's description, and its supernet against its own slow way of doing things."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.spaces import Cells64


def test_the_default_is_the_papers_space() -> None:
    space = Cells64()
    assert len(space) == 64
    assert space.name(space[0]) == "111"
    assert space.name((3, 2, 3)) == "434"
    assert list(space)[59] == space.parse("434") == (3, 2, 3)
    assert space.name(space[63]) == "444"


def test_child_434_has_the_layers_of_the_paper() -> None:
    """Counted by hand: dil 5x5 is 25 C + C C, sep 5x5 is twice that; only the stem's batch norms have parameters."""
    child = Cells64().supernet(3, 10).child((3, 2, 3))
    stem = 3 * 48 * 9 + 2 * 48 + 48 * 48 * 9 + 2 * 48
    separable = 25 * 16 + 16 * 16
    cells = 48 * 16 + 3 * 32 * 16 + 4 * (separable + 2 * separable + separable)
    assert sum(param.numel() for param in child.parameters()) == stem + cells + 32 * 10 + 10
    norms = [module for module in child.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [norm.affine for norm in norms] == [True, True] + [False] * (4 * (1 + 1 + 2 + 1))
    assert {norm.momentum for norm in norms} == {0.4}


@pytest.mark.parametrize("text", ["", "43", "4344", "435", "430", "4a4", "٤٣٤", "43 "])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="3 digits from 1 to 4"):
        Cells64().parse(text)


@pytest.mark.parametrize(
    "arguments",
    [
        {"channels": 0},
        {"num_cells": -1},
        {"num_nodes": 0},
        {"operations": ()},
        {"operations": ("max_pool_3x3", "max_pool_3x3")},
        {"operations": ("max_pool_4x4",)},
        {"bn_momentum": 0.0},
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Cells64(**arguments)  # type: ignore[arg-type]


def test_forward_all_refuses_training_mode_and_keeps_the_order() -> None:
    space = Cells64(channels=4, num_cells=2)
    net = space.supernet(1, 3)
    x = torch.randn(2, 1, 6, 6)
    with pytest.raises(ConfigError, match="evaluation mode"):
        net.forward_all(x, list(space))
    net.eval()
    archs = [space[i] for i in (63, 5, 5, 0, 17)]
    with torch.no_grad():
        for arch, logits in zip(archs, net.forward_all(x, archs), strict=True):
            assert torch.equal(logits, net(x, arch))
