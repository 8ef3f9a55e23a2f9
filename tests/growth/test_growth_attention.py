"""Attention whose heads can grow is torch's own, up to rounding, however it is called."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn

from ramet.growth import grow, load_network, save_network
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.attention import OpenAttention, open_attention
from ramet.training import Recipe

OPTIONS = list(itertools.product([True, False], [True, False], [{}, {"kdim": 5, "vdim": 7}]))


def made(batch_first, bias, sizes):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=batch_first, bias=bias, **sizes).double()
    for parameter in module.parameters():
        parameter.data = torch.randn_like(parameter)
    return module


@pytest.mark.parametrize(("batch_first", "bias", "sizes"), OPTIONS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", ["none", "added", "left out", "each head", "padding", "both"])
def test_it_is_torchs(batch_first, bias, sizes, need_weights, mask):
    module = made(batch_first, bias, sizes)
    shapes = [(3, 4, 8), (3, 6, sizes.get("kdim", 8)), (3, 6, sizes.get("vdim", 8))]
    q, k, v = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    if not batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    masks = {
        "added": {"attn_mask": torch.randn(4, 6, dtype=torch.float64)},
        "left out": {"attn_mask": torch.rand(4, 6) < 0.4},
        "each head": {"attn_mask": torch.randn(6, 4, 6, dtype=torch.float64)},
        "padding": {"key_padding_mask": torch.arange(6).expand(3, 6) > torch.tensor([[3], [4], [5]])},
    }
    masks["both"] = {**masks["added"], "key_padding_mask": masks["padding"]["key_padding_mask"].double() * -1e9}
    options = {"need_weights": need_weights, **masks.get(mask, {})}
    expected, found = module(q, k, v, **options), OpenAttention(module)(q, k, v, **options)
    torch.testing.assert_close(found[0], expected[0])
    assert (found[1] is None) == (expected[1] is None)
    if need_weights:
        torch.testing.assert_close(found[1], expected[1])
        every = {**options, "average_attn_weights": False}
        torch.testing.assert_close(OpenAttention(module)(q, k, v, **every)[1], module(q, k, v, **every)[1])


def test_without_a_batch():
    module, x = made(True, True, {}), torch.randn(5, 8, dtype=torch.float64)
    padding = torch.arange(5) > 3
    for options in ({}, {"key_padding_mask": padding}):
        expected, found = module(x, x, x, **options), OpenAttention(module)(x, x, x, **options)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], expected[1])


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.Linear(4, 8), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 3))


def test_torchs_own_layers_call_it_and_its_heads_grow():
    network, x = encoder().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    opened = open_attention(copy.deepcopy(network))
    for mode in (True, False):
        torch.testing.assert_close(opened.train(mode)(x), network.train(mode)(x))
    sizes = {name: group.size for name, group in find_coupling(opened, x).groups.items()}
    assert sizes["1.layers.0.self_attn.queries"] == 2 and sizes["1.layers.0.linear1"] == 12
    assert len(sizes) == 4


def test_what_it_does_not_know_stays():
    class Own(nn.MultiheadAttention):
        pass

    keys = nn.MultiheadAttention(8, 2, add_bias_kv=True)
    network = nn.ModuleDict(
        {"own": Own(8, 2), "more keys": keys, "zero": nn.MultiheadAttention(8, 2, add_zero_attn=True)}
    )
    network["plain"], network["kept"] = nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)
    open_attention(network, kept=("kept",))
    assert [type(module) is OpenAttention for module in network.values()] == [False, False, False, True, False]


def test_frozen_weights_stay_frozen():
    module = made(True, True, {}).requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in OpenAttention(module).parameters())


class Pooled(nn.Module):
    """A transformer that classifies images by the mean of its rows."""

    def __init__(self):
        super().__init__()
        self.embed, self.body = nn.Linear(8, 8), nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(self.embed(x.flatten(1, 2))).mean(1))


def test_a_growth_adds_heads_and_the_network_is_loaded_again(tmp_path):
    torch.manual_seed(0)
    x, y = torch.randn(60, 1, 8, 8), torch.arange(60) % 3
    network = Pooled()
    recipe = Recipe(epochs=1, batch_size=20, learning_rate=0.01)
    data = (x[:40], y[:40], x[40:], y[40:])
    grown, history = grow(network, data, "params=4k,step=40%", settings=recipe, max_steps=3)
    assert isinstance(network.body.self_attn, nn.MultiheadAttention), "the network that was given is left as it is"
    assert grown.body.self_attn.num_heads > 2
    origin = {"network": None, "in_channels": 1, "image_size": [8, 8], "num_classes": 3}
    save_network(grown, tmp_path / "net", steps=history.steps, origin=origin)
    again = load_network(tmp_path / "net", network)
    torch.testing.assert_close(again(x), grown.eval()(x))
