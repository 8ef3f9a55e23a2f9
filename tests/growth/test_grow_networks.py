"""The built-in networks: of torch's classes, of the sizes asked for, and able to grow everywhere but at their ends."""

import copy

import pytest
import torch
import torch.fx
from torch import nn

from ramet.errors import ConfigError
from ramet.growth import NETWORKS, find_coupling
from ramet.growth.networks import mlp, mobilenet, vgg


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("channels", "size"), [(1, 8), (3, 32), (1, (28, 28))])
def test_networks_grow_everywhere_but_at_their_output(name, channels, size):
    network = NETWORKS[name](channels, size, 7)
    height, width = (size, size) if isinstance(size, int) else size
    x = torch.randn(2, channels, height, width)
    assert network(x).shape == (2, 7)
    coupling = find_coupling(network, x)
    assert [refusal.reason for refusal in coupling.refusals] == ["it is the network's output"]
    assert len(coupling.groups) >= 2


@pytest.mark.parametrize("residual", [True, False])
def test_mobilenet_is_of_torchs_classes_and_can_be_copied(residual):
    network = mobilenet(1, 8, 10, residual=residual).eval()
    for module in network.modules():
        assert isinstance(module, torch.fx.GraphModule) or type(module).__module__.startswith("torch.nn")
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(copy.deepcopy(network)(x), network(x))
    depthwise = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.groups > 1]
    assert len(depthwise) == 4 and all(m.groups == m.in_channels for m in depthwise)


def test_a_residual_block_adds_its_input():
    network = mobilenet(1, 4, 10, width=3, depth=2).eval()
    x = torch.randn(2, 1, 4, 4)
    stem, blocks, head = network.stem, network.blocks, network.head
    y = stem(x)
    y = y + getattr(blocks, "0")(y)
    y = y + getattr(blocks, "1")(y)
    torch.testing.assert_close(network(x), head(y))


def test_widths_can_be_given_one_by_one():
    assert [m.out_channels for m in vgg(1, 8, 10, width=(3, 5, 7)) if isinstance(m, nn.Conv2d)] == [3, 5, 7]


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"depth": 0}, {"width": (2, 3), "depth": 3}, {"width": ()}, {"width": True}]
)
def test_bad_sizes_are_refused(options):
    with pytest.raises(ConfigError):
        mlp(1, 8, 10, **options)
