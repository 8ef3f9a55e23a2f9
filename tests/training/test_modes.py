"""Modes are put back module by module, whatever the block does and however it ends."""

from __future__ import annotations

import pytest
from torch import nn

from ramet.training import training_modes
from ramet.training.evaluation import modules_of


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("change", ["train", "eval"])
def test_each_module_gets_its_own_mode_back(change, fails):
    network = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(1)), nn.Dropout())
    network[1].eval()
    network[1][0].train()
    modes = [module.training for module in network.modules()]
    assert len(set(modes)) == 2
    try:
        with training_modes(network):
            getattr(network, change)()
            assert {module.training for module in network.modules()} == {change == "train"}
            if fails:
                raise RuntimeError
    except RuntimeError:
        assert fails
    assert [module.training for module in network.modules()] == modes


class Renamed(nn.Sequential):
    """A network that shows only some of its modules."""

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        yield prefix, self
        yield f"{prefix}shown", self[0]


def test_a_walk_gives_the_modules_that_torch_gives():
    shared = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    network = nn.Sequential(shared, nn.Sequential(nn.Dropout(), shared), nn.ModuleList([shared[1]]))
    network.add_module("none", None)
    for one in (network, nn.Sequential(network, Renamed(nn.ReLU(), nn.Dropout()))):
        assert [id(module) for module in modules_of(one)] == [id(module) for module in one.modules()]
