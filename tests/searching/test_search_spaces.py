"""Darts, EnasMicro and Recurrent: the conformance suite, published counts, and cells against slow twins."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from cell_graphs import cell_graphs
from torch import nn

from ramet.costs import count_flops, count_parameters
from ramet.errors import ConfigError
from ramet.searching.costs import ArchCosts
from ramet.seeding import torch_generator
from ramet.spaces import Darts, DartsNetwork, EnasMicro, Recurrent, make_space, size_options, takes_text
from ramet.spaces.darts.genotypes import DARTS_V2
from ramet.spaces.operations import FactorisedReduction
from ramet.testing.spaces import SPACE_CHECKS
from ramet.training.augmentation import cutout

SPACES = {
    "darts": (Darts(channels=4, num_cells=3, num_nodes=2), (3, 8, 8), 5),
    "enas-micro": (EnasMicro(channels=4, cells_per_stage=1, num_nodes=2), (3, 8, 8), 5),
    "recurrent": (Recurrent(hidden_size=8, num_nodes=4), (6,), 11),
}


@pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", SPACES)
def test_conformance(name, check):
    space, shape, num_classes = SPACES[name]
    if name == "recurrent":  # dropout would tell the child from the supernet in training mode
        space = Recurrent(hidden_size=8, num_nodes=4, input_dropout=0, output_dropout=0, word_dropout=0)
    check(space, shape, num_classes)


@pytest.mark.parametrize("name", [*SPACES, "cells64", "nasbench201"])
def test_a_space_draws_what_its_notation_says(name):
    """Against the report's reading of the notations, which knows nothing of the space."""
    space = make_space(name) if name not in SPACES else SPACES[name][0]
    for number in range(5):
        arch = space.sample(torch_generator(number))
        twins = cell_graphs(space.name(arch), getattr(space, "operations", ()))
        assert len(twins) == len(space.graph(arch)) > 0
        for cell, (title, nodes, edges) in zip(space.graph(arch), twins, strict=True):
            assert (cell.title, cell.nodes) == (title, tuple((node.key, node.label) for node in nodes))
            drawn = [edge for edge in edges if edge.label != "none"]
            assert sorted(cell.edges) == sorted((edge.source, edge.target, edge.label) for edge in drawn)


@pytest.mark.parametrize(
    ("name", "sizes", "arguments"),
    [
        ("cells64", {}, {"channels": 8, "num_cells": 2}),
        ("nasbench201", {"cells": 3}, {"channels": 8, "cells_per_stage": 3}),
        ("darts", {"channels": 4, "nodes": 2}, {"channels": 4, "num_cells": 4, "num_nodes": 2}),
        ("enas-micro:num_nodes=2", {}, {"channels": 8, "cells_per_stage": 1}),
        ("recurrent", {"channels": 16}, {"hidden_size": 16}),
        ("torch.nn:Sequential.forward", {}, {}),
    ],
)
def test_a_space_knows_its_sizes(name, sizes, arguments):
    assert size_options(name, **sizes) == arguments
    assert takes_text(name) == (name == "recurrent")


def test_a_size_that_a_space_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="sizes of Recurrent are channels, nodes, but got cells"):
        size_options("recurrent", cells=3)


def test_darts_v2_has_its_published_parameters():
    space = Darts(channels=36, num_cells=20)
    arch = space.parse(DARTS_V2)
    with torch.device("meta"):
        network = DartsNetwork(space, arch, 3, 10, auxiliary=True)
    assert count_parameters(network) - count_parameters(network.auxiliary) == 3_349_342
    assert round(3_349_342 / 1e6, 2) == 3.35
    assert space.parse(space.name(arch)) == arch


def test_the_sizes_of_the_spaces():
    assert Darts().num_archs == len(Darts()) == (3 * 6 * 10 * 8**8) ** 2
    assert EnasMicro().num_archs == ((2 * 3 * 4 * 5 * 6) ** 2 * 5**10) ** 2
    assert EnasMicro()[EnasMicro().num_archs - 1] == EnasMicro()[-1]
    assert Recurrent().num_archs == 4**12 * 39_916_800  # 11!


def test_a_genotype_in_any_order_of_a_nodes_inputs():
    space = Darts(num_nodes=1)
    text = (
        "Genotype(normal=[('none', 1), ('skip_connect', 0)], normal_concat=range(2, 3), "
        "reduce=[('none', 0), ('none', 1)], reduce_concat=[2])"
    )
    assert space.cells(space.parse(text))[0] == [((3, 0), (0, 1))]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("'sep_conv_3x3', 0)", "'sep_conv_9x9', 0)"), "an operation of the normal cell is one of none, max_pool"),
        (
            ("('sep_conv_3x3', 1), ('sep_conv_3x3', 0)", "('sep_conv_3x3', 0), ('sep_conv_3x3', 0)"),
            "two different inputs",
        ),
        (("'dil_conv_3x3', 2", "'dil_conv_3x3', 5"), "node 3 of the normal cell has inputs 0 to 4"),
        (("normal_concat=[2, 3, 4, 5]", "normal_concat=[2, 3]"), "normal_concat must be all nodes"),
        (("Genotype(", "exec("), "a genotype reads"),
        (("reduce_concat=[2, 3, 4, 5]", "reduce_concat=__import__('os')"), "a genotype reads"),
        (("('sep_conv_3x3', 0), ", ""), "a list of 8 operations"),
    ],
)
def test_a_bad_genotype_is_one_line(change, words):
    text = DARTS_V2.replace(*change, 1) if words != "a list of 8 operations" else DARTS_V2.replace(change[0], "", 1)
    assert text != DARTS_V2
    with pytest.raises(ConfigError, match=words) as raised:
        Darts().parse(text)
    assert "\n" not in str(raised.value)


def test_a_darts_network_is_its_supernets_path_and_exports():
    """The network alone computes what a supernet of affine norms would, and its plain form is the same bit for bit."""
    space = Darts(channels=4, num_cells=3, num_nodes=2)
    arch = space.sample(torch_generator(3, "arch"))
    network = DartsNetwork(space, arch, 3, 5, auxiliary=False)
    x = torch.randn(6, 3, 16, 16)
    network.train()(x)
    plain = network.plain()
    assert network.training and not any(type(part).__module__.startswith("ramet") for part in plain.modules())
    with torch.no_grad():
        assert torch.equal(network.eval()(x), plain(x))


def test_drop_path_and_auxiliary_head_are_for_training():
    space = Darts(channels=4, num_cells=3, num_nodes=1, operations=["sep_conv_3x3", "skip_connect"])
    network = DartsNetwork(space, (0, 0, 0, 0), 3, 5)
    x, y = torch.randn(8, 3, 32, 32), torch.randint(5, (8,))
    torch.manual_seed(0)
    alone = nn.functional.cross_entropy(network(x), y).detach()
    with_head = network.loss(x, y).detach()
    assert with_head > alone
    network.set_drop_path(0.9)
    assert not torch.allclose(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))
    assert torch.equal(network.loss(x, y), nn.functional.cross_entropy(network(x), y))
    with pytest.raises(ConfigError, match="drop_path must lie in"):
        network.set_drop_path(1.0)


def test_cutout_by_hand():
    """Every image loses one square, clipped at the border; against a loop over pixels."""
    x = torch.ones(50, 2, 6, 7)
    cut, _ = cutout(x, torch.zeros(len(x)), torch_generator(0, "cutout"), 4)
    generator = torch_generator(0, "cutout")
    rows, columns = torch.randint(6, (50, 1), generator=generator), torch.randint(7, (50, 1), generator=generator)
    for image in range(50):
        for i in range(6):
            for j in range(7):
                inside = -2 <= i - rows[image] < 2 and -2 <= j - columns[image] < 2
                assert bool((cut[image, :, i, j] == 0).all()) == bool(inside)


@pytest.mark.parametrize("channels", [3, 8])  # few of them have a way of their own
def test_a_factorised_reduction_of_an_even_image_sees_no_padding(channels):
    layer = FactorisedReduction(channels, 5, 0.1, affine=True).eval().double()
    x = torch.randn(2, channels, 8, 6).double()
    y = torch.relu(x)
    halves = [F.conv2d(y, layer.even.weight, stride=2), F.conv2d(y[:, :, 1:, 1:], layer.odd.weight, stride=2)]
    torch.testing.assert_close(layer(x), layer.norm(torch.cat(halves, dim=1)))
    assert layer(torch.randn(2, channels, 7, 5).double()).shape == (2, 5, 4, 3)


def test_a_darts_cell_by_hand():
    """One cell of two nodes against the sums written out."""
    space = Darts(channels=4, num_cells=1, num_nodes=2)
    space.num_cells = 5  # so that the first cell is a normal one
    net = space.supernet(3, 5).eval()
    cell = net.stages[1]
    arch = space.parse(
        "Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), ('none', 0), ('max_pool_3x3', 2)], "
        "normal_concat=[2, 3], reduce=[('none', 0), ('none', 1), ('none', 0), ('none', 1)], reduce_concat=[2, 3])"
    )
    x = torch.randn(2, 12, 8, 8)
    _, found = cell((x, x + 1), arch)
    older, newer = cell.preprocess_older(x), cell.preprocess_newer(x + 1)
    first = cell.edges["0to2"]["4"](older) + newer
    second = cell.edges["2to3"]["1"](first)
    torch.testing.assert_close(found, torch.cat([first, second], dim=1))


def test_a_recurrent_cell_by_hand():
    """Two steps of a cell of three nodes, by the equations."""
    space = Recurrent(hidden_size=5, num_nodes=3, max_norm=0.2)
    net = space.supernet(1, 7).eval().double()
    for param in net.parameters():
        nn.init.normal_(param)
    arch = space.parse("tanh 0:relu 0:sigmoid")
    x = torch.tensor([[3, 1]])
    embedder, cell, decoder = net.stages
    hidden = torch.zeros(5).double()
    for time in range(2):
        word = embedder.weight[x[0, time]]
        both = cell.from_input.weight @ word + cell.from_hidden.weight @ hidden
        gate = torch.sigmoid(both[5:])
        root = gate * torch.tanh(both[:5]) + (1 - gate) * hidden
        leaves = []
        for name, activation in (("0to1", torch.relu), ("0to2", torch.sigmoid)):
            both = cell.nodes[name].weight @ root
            gate = torch.sigmoid(both[5:])
            leaves.append(gate * activation(both[:5]) + (1 - gate) * root)
        hidden = sum(leaves) / 2
        hidden = hidden * min(1.0, 0.2 / hidden.detach().norm().item())
        expected = embedder.weight @ hidden + decoder.bias
        torch.testing.assert_close(net(x, arch)[0, :, time], expected, rtol=1e-12, atol=1e-12)


def test_recurrent_dropout_is_one_mask_for_a_sequence():
    space = Recurrent(hidden_size=64, num_nodes=2, input_dropout=0.5, output_dropout=0, word_dropout=0)
    net = space.supernet(1, 7)
    embedded, _ = net.stages[0](torch.zeros(3, 9, dtype=torch.long), space[0])
    zero = embedded == 0
    assert bool((zero == zero[:, :1]).all()), "a channel is left out at all times or at none"
    assert not torch.equal(zero[0], zero[1])
    kept = embedded[~zero]
    assert torch.isin(kept, 2 * net.stages[0].weight[0].detach()).all()


def test_weight_drop_is_one_mask_for_a_mini_batch():
    """Against a network without it, whose recurrent matrices are multiplied by the same masks."""
    rates = {"input_dropout": 0, "output_dropout": 0, "word_dropout": 0}
    space = Recurrent(hidden_size=6, num_nodes=3, weight_drop=0.5, **rates)
    arch = space.parse("tanh 0:relu 1:sigmoid")
    net = space.supernet(1, 7).train()
    for param in net.parameters():
        nn.init.normal_(param)
    plain = Recurrent(hidden_size=6, num_nodes=3, **rates).supernet(1, 7)
    plain.load_state_dict(net.state_dict())
    x = torch.tensor([[3, 1, 4, 2]])
    heard = []
    cell = net.stages[1]
    hook = cell.nodes["0to1"].register_forward_hook(lambda *call: heard.append(call))
    torch.manual_seed(0)
    found = net(x, arch)
    hook.remove()
    assert len(heard) == 4, "guards listen to the layer at every time"
    torch.manual_seed(0)
    with torch.no_grad():
        for layer in (plain.stages[1].from_hidden, plain.stages[1].nodes["0to1"], plain.stages[1].nodes["1to2"]):
            layer.weight.mul_((torch.rand_like(layer.weight) >= 0.5) * 2.0)
    torch.testing.assert_close(found, plain(x, arch))
    assert all(layer.mask is None for layer in cell.modules() if hasattr(layer, "mask"))
    assert torch.equal(net.eval()(x, arch), net(x, arch)) and not torch.equal(net(x, arch), found)


def test_a_dropped_node_hands_its_parent_on():
    rates = {"input_dropout": 0, "output_dropout": 0, "word_dropout": 0}
    space = Recurrent(hidden_size=6, num_nodes=3, path_dropout=1 - 1e-7, **rates)
    net = space.supernet(1, 7).train()
    for param in net.parameters():
        nn.init.normal_(param)
    x = torch.tensor([[3, 1, 4], [2, 2, 0]])
    single = Recurrent(hidden_size=6, num_nodes=1, **rates)
    alone = single.supernet(1, 7)
    alone.load_state_dict({name: value for name, value in net.state_dict().items() if "nodes" not in name})
    torch.testing.assert_close(net(x, space.parse("tanh 0:relu 1:sigmoid")), alone(x, single.parse("tanh")))
    some = Recurrent(hidden_size=6, num_nodes=3, path_dropout=0.5, **rates).supernet(1, 7).train()
    arch = space.parse("tanh 0:relu 1:sigmoid")
    assert not torch.equal(some(x, arch), some(x, arch)) and torch.equal(some.eval()(x, arch), some(x, arch))


def test_a_recurrent_space_without_the_later_dropouts_is_described_as_before():
    assert not {"weight_drop", "path_dropout"} & Recurrent().describe().keys()
    options = Recurrent(weight_drop=0.5, path_dropout=0.25).describe()
    assert (options["weight_drop"], options["path_dropout"]) == (0.5, 0.25)


@pytest.mark.parametrize("name", SPACES)
def test_parameters_on_the_path_are_the_childs(name):
    space, shape, num_classes = SPACES[name]
    costs = ArchCosts(space, shape, num_classes)
    net = space.supernet(shape[0], num_classes)
    for seed in range(3):
        arch = space.sample(torch_generator(seed, "arch"))
        assert costs("params", arch) == count_parameters(net.child(arch))


def test_words_are_counted_too():
    space = Recurrent(hidden_size=8, num_nodes=3)
    net = space.supernet(1, 11)
    assert count_parameters(net.child(space[0])) == 11 * 8 + 11 + 4 * 2 * 64
    assert count_flops(net, (6,), space[0]) == 6 * (4 * 2 * 64 + 11 * 8)
