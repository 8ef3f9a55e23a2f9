"""Costs against hand-worked examples."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ramet.costs import count_flops, count_parameters, measure_latency
from ramet.errors import ConfigError
from ramet.spaces import Cells64


def test_multiply_adds_of_child_434_by_hand() -> None:
    """At 32x32 each pixel meets every weight of every convolution once; the linear layer comes once an image."""
    child = Cells64().supernet(3, 10).child((3, 2, 3))
    weights = sum(p.numel() for p in child.parameters() if p.dim() == 4)
    assert count_flops(child, (3, 32, 32)) == weights * 32 * 32 + 32 * 10


def test_a_supernets_path_costs_what_its_child_costs() -> None:
    net = Cells64(channels=4, num_cells=2).supernet(1, 3)
    for arch in [(0, 0, 0), (3, 2, 3)]:
        assert count_flops(net, (1, 8, 8), arch) == count_flops(net.child(arch), (1, 8, 8))


def test_parameters_that_are_frozen_or_tied() -> None:
    shared = nn.Linear(3, 3, bias=False)
    assert count_parameters(nn.Sequential(shared, shared)) == 9
    shared.weight.requires_grad_(False)
    assert count_parameters(nn.Sequential(shared, nn.Linear(3, 1))) == 4


def test_measuring_leaves_a_module_as_it_was() -> None:
    module = nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm2d(3).eval())
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    assert measure_latency(module, (3, 4, 4), num_runs=2, num_warmups=0) > 0
    count_flops(module, (3, 4, 4))
    assert [part.training for part in module] == [True, False]
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize("shape", [(), (0, 4, 4), (3, -1, 4)])
def test_bad_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="positive"):
        count_flops(nn.Identity(), shape)
