"""The mean of what filters see, without patches, is that of the patches; a walk finds the parameters torch does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ramet.guards.convolutions import conv_columns, mean_over_samples, pooled_column
from ramet.guards.listening import named_of
from ramet.params import named_params
from ramet.spaces import Cells64

MEMORY = (torch.contiguous_format, torch.channels_last)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (2, 2, 2, 2), (1, 0, 2, 1)])
@pytest.mark.parametrize("dilation", [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 3)])
def test_the_mean_patch_is_the_mean_of_all_patches(kernel, dilation, pads, groups, memory):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 4, 9, 8, dtype=torch.float64, generator=generator).contiguous(memory_format=memory)
    patches = conv_columns(x, kernel, (1, 1), dilation, groups, pads=pads, padding_mode="zeros", mean=False)
    torch.testing.assert_close(pooled_column(x, kernel, dilation, groups, pads=pads), patches.mean(-1, keepdim=True))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("memory", MEMORY)
def test_the_mean_over_samples_in_any_memory(memory, turned):
    x = torch.randn(3, 4, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = x.contiguous(memory_format=memory)
    x = x.transpose(2, 3) if turned else x
    torch.testing.assert_close(mean_over_samples(x), x.mean(0, keepdim=True))


def test_a_walk_names_all_parameters_as_torch_does():
    layer = nn.Linear(2, 2)
    tied = nn.ModuleDict({"one": nn.Sequential(layer, nn.ReLU()), "other": layer, "none": nn.Identity()})
    for network in (tied, nn.DataParallel(tied), Cells64(channels=2, num_cells=1).supernet(1, 3), layer):
        root = network.module if isinstance(network, nn.DataParallel) else network
        expected = list(root.named_parameters(remove_duplicate=False))
        assert [(name, id(param)) for name, param in named_of(network)] == [(n, id(p)) for n, p in expected]
    assert [name for name, _ in named_of(tied)] == ["one.0.weight", "one.0.bias", "other.weight", "other.bias"]


def test_a_network_with_names_of_its_own_keeps_them():
    class Renamed(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            return [(f"mine.{name}", param) for name, param in super().named_parameters(*args, **kwargs)]

    assert [name for name, _ in named_of(Renamed(2, 1))] == ["mine.weight", "mine.bias"]
    assert list(named_params(nn.Linear(2, 1))) == ["weight", "bias"]
