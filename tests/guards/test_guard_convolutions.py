"""The mean of what filters see, without patches, is that of the patches."""

from __future__ import annotations

import pytest
import torch

from ramet.guards import OrthogonalProjection, convolutions
from ramet.guards.convolutions import conv_columns, mean_over_samples, pooled_column
from ramet.params import named_params
from ramet.spaces.kernels.depthwise import DepthwiseConv2d

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


@pytest.mark.parametrize("memory", MEMORY)
def test_the_mean_patch_of_a_large_image_axis_by_axis(memory):
    x = torch.randn(2, 4, 50, 60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, kernel, dilation, pads = x.contiguous(memory_format=memory), (5, 3), (2, 1), (1, 0, 2, 1)
    assert convolutions._SMALL < 50 * 60 * 15
    patches = conv_columns(x, kernel, (1, 1), dilation, 2, pads=pads, padding_mode="zeros", mean=False)
    torch.testing.assert_close(pooled_column(x, kernel, dilation, 2, pads=pads), patches.mean(-1, keepdim=True))


def test_a_kernel_that_shows_its_product_is_seen_without_a_hook():
    class Hidden(DepthwiseConv2d):
        shows_products = False

    x = torch.randn(3, 8, 40, 40, generator=torch.Generator().manual_seed(0))
    states = []
    for kind in (DepthwiseConv2d, Hidden):
        torch.manual_seed(0)
        layer, guard = kind(8, 8, 5, padding=4, dilation=2), OrthogonalProjection(inputs="mean")
        assert layer._is_worth_it(x), "else torch's own forward is taken"
        with guard.watch(layer):
            assert bool(layer._forward_hooks) == (kind is Hidden)
            layer(x).sum().backward()
        guard.remember(named_params(layer))
        states.append(guard.state_dict())
    assert states[0].keys() == states[1].keys() and "matrix/weight+bias" in states[0]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("memory", MEMORY)
def test_the_mean_over_samples_in_any_memory(memory, turned):
    x = torch.randn(3, 4, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = x.contiguous(memory_format=memory)
    x = x.transpose(2, 3) if turned else x
    torch.testing.assert_close(mean_over_samples(x), x.mean(0, keepdim=True))
