"""A network of the user's own is cut into blocks and a head: where it can be, and a line that says why where not."""

from __future__ import annotations

import pytest
import torch
from module_networks import Attention, Mixer, ResNet, TorchViT, ViT, plain
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ramet.continual.networks.cutting import block_outputs, cut_network
from ramet.continual.networks.flow import Flow
from ramet.errors import ConfigError

SHAPE = (1, 8, 8)
EXPECTED = {
    ResNet: (["conv1", "layer1.0", "layer1.1", "layer2.0", "layer2.1"], "fc"),
    ViT: (["patch", "blocks.0", "blocks.1", "blocks.2"], "head"),
    TorchViT: (["patch", "encoder.layers.0", "encoder.layers.1"], "head"),
    Mixer: (["stem", "layers.0", "layers.1"], "classifier.1"),
    plain: (["0", "4", "8"], "10"),
}


@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_blocks_are_residual_blocks_layers_of_transformers_and_convolutions(make):
    network = make()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    cut = cut_network(network, SHAPE)
    assert ([block.name for block in cut.blocks], cut.head) == EXPECTED[make]
    assert cut.notes == ()
    for name, value in network.state_dict().items():  # left as it was, statistics too
        assert torch.equal(value, before[name])
    # Each tensor below the head belongs to one block.
    named = [name for block in cut.blocks for name in (*block.weights, *block.norms)]
    expected = [name for name in network.state_dict() if not name.startswith(f"{cut.head}.")]
    assert sorted(named) == sorted(expected)


@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_all_that_comes_later_follows_from_what_a_block_gives(make):
    """The promise of a cut: where a block's output is put back, the inputs do not matter any more."""
    network = make().eval()
    cut = cut_network(network, SHAPE)
    x, other = torch.randn(2, 3, *SHAPE)
    expected = network(x)
    for block, output in zip(cut.blocks, block_outputs(network, cut, x, torch.clone), strict=True):
        module = network.get_submodule(block.end or cut.head)
        if block.end:
            handle = module.register_forward_hook(lambda *_, output=output: output)
        else:
            handle = module.register_forward_pre_hook(lambda *_, output=output: (output,))
        assert torch.allclose(network(other), expected, atol=1e-5)
        handle.remove()
    assert not torch.allclose(network(other), expected, atol=1e-3)


def test_a_class_token_and_positions_belong_to_the_layer_that_reads_them():
    blocks = {block.name: block for block in cut_network(ViT(), SHAPE).blocks}
    assert {"cls_token", "positions"} <= set(blocks["blocks.0"].weights)
    assert "norm.weight" in blocks["blocks.2"].weights
    assert not any(block.norms for block in blocks.values())  # layer norms are no batch norms


def test_batch_norms_are_apart_from_weights():
    first, second, *_ = cut_network(ResNet(), SHAPE).blocks
    assert first.weights == ("conv1.weight",)
    assert set(first.norms) == {f"bn1.{name}" for name in nn.BatchNorm2d(1).state_dict()}
    assert second.weights == ("layer1.0.conv1.weight", "layer1.0.conv2.weight")


def test_whatever_changes_its_buffers_in_training_is_like_a_batch_norm():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("table", torch.arange(4.0))
            self.shift = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            if self.training:
                self.mean.lerp_(x.detach().mean(0), 0.1)
            return x - self.mean + self.shift

    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), Centred(), nn.Linear(4, 2))
    (block,) = cut_network(network, SHAPE).blocks
    assert set(block.norms) == {"2.mean", "2.table", "2.shift"}


class Tied(nn.Module):
    """Its first and third layers are one weight."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(64, 6)
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.c.weight = self.a.weight
        self.last, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.stem(x.flatten(1)).relu()
        return self.head(self.last(self.c(self.b(self.a(x).relu()).relu()).relu()).relu())


class Twice(Tied):
    """Its layer ``a`` is called twice."""

    def forward(self, x):
        x = self.stem(x.flatten(1)).relu()
        return self.head(self.last(self.a(self.b(self.a(x).relu()).relu()).relu()).relu())


class Skips(nn.Module):
    """Every layer reads all before it: there is no place to cut."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(64, 6), nn.Linear(70, 6), nn.Linear(76, 3)

    def forward(self, x):
        x = x.flatten(1)
        a = self.a(x).relu()
        return self.head(torch.cat([self.b(torch.cat([x, a], 1)).relu(), a, x], 1))


def test_a_weight_that_is_used_twice_holds_what_lies_between_in_one_block():
    # Behind the second call of a layer there is no module that was called once, but for the next layer's.
    for network, names in ((Tied(), ["stem", "a", "last"]), (Twice(), ["stem", "a"])):
        cut = cut_network(network, SHAPE)
        assert [block.name for block in cut.blocks] == names
        assert "a.weight is used in each of them" in cut.notes[0]
    assert {"a.weight", "b.weight", "c.bias"} <= set(cut_network(Tied(), SHAPE).blocks[1].weights)
    assert cut_network(Tied(), SHAPE).aliases == {"a.weight": ("c.weight",)}


def test_a_network_that_cannot_be_cut_is_one_block_and_says_so():
    cut = cut_network(Skips(), SHAPE)
    assert len(cut.blocks) == 1 and "Skips is one block" in cut.notes[0]
    assert set(cut.blocks[0].weights) == {"a.weight", "a.bias", "b.weight", "b.bias"}


def test_a_residual_network_of_bare_operations_is_cut_where_its_modules_allow_it():
    class Flat(nn.Module):
        """A transformer layer without a module of its own."""

        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(1, 6, 4, 4)
            self.norm, self.attn, self.head = nn.LayerNorm(6), Attention(6, 2), nn.Linear(6, 3)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = x + self.attn(self.norm(x))
            return self.head(x.mean(1))

    assert [block.name for block in cut_network(Flat(), SHAPE).blocks] == ["patch", "attn"]


class Changed(nn.Module):
    """A small network whose last steps are given."""

    def __init__(self, ending):
        super().__init__()
        self.body, self.head = nn.Linear(64, 6), nn.Linear(6, 3)
        self.ending = ending

    def forward(self, x):
        return self.ending(self, self.body(x.flatten(1)).relu())


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (lambda net, x: (net.head(x), x), "gives tuple"),
        (lambda net, x: {"classes": net.head(x)}, "gives dict"),
        (lambda net, x: net.head(x)[:, 0], r"gives shape \[2\]"),
        (lambda net, x: F.log_softmax(net.head(x), 1), "ends with LogSoftmax, while 'head' is not the last"),
        (lambda net, x: net.head(x) + net.head(x), "ends with Add"),
        (lambda net, x: x[:, :3] * 2, "ends with Mul"),
        (lambda net, x: net.head(x).detach(), "must be differentiable"),
        (lambda net, x: net.head(torch.ones_like(x)), "must depend on its inputs"),
        (lambda net, x: net.head(x[:, :5]), "raises RuntimeError"),
        (lambda net, x: net.head(x) if not net.training else (net.head(x), x), "gives tuple in training mode"),
    ],
)
def test_networks_without_a_head_of_their_own_are_refused(ending, words):
    with pytest.raises(ConfigError, match=words):
        cut_network(Changed(ending), SHAPE)


def test_other_networks_that_are_refused():
    with pytest.raises(ConfigError, match="must have parameters below its head"):
        cut_network(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), SHAPE)
    with pytest.raises(ConfigError, match=r"must run on images of shape \[3, 8, 8\], but Sequential raises"):
        cut_network(plain(), (3, 8, 8))
    tied = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    tied[3].weight = tied[1].weight
    with pytest.raises(ConfigError, match=r"'3' shares them with '1.weight'"):
        cut_network(tied, SHAPE)
    with pytest.raises(ConfigError, match="one of its linear layers, but got 'fcc'"):
        cut_network(ResNet(), SHAPE, head="fcc")


def test_a_head_can_be_named():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Linear(6, 3))
    assert cut_network(network, SHAPE, head="2").head == "2"
    with pytest.raises(ConfigError, match="must be what its head gives"):
        cut_network(network, SHAPE, head="1")


def test_ways_are_counted_by_hand():
    """x -> a; b = a + f(a); out = b * b: a and b are on every way, f(a) is not, whatever the number of ways."""
    x, weight = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    a = x * 2
    f = a * weight
    b = a + f
    out = b * b
    flow = Flow(out, x)
    assert [flow.is_cut(tensor) for tensor in (a, f, b, out)] == [True, False, True, True]
    assert flow.segments([a, b], {"weight": weight, "other": torch.ones(1)}) == {"weight": (1, 1)}
    assert flow.place(a) < flow.place(b) < flow.place(out)
    halves = (x * 2).chunk(2)
    assert not Flow(halves[0] * 2 + halves[1], x).is_cut(halves[0])  # one node, but two tensors


def test_a_network_that_computes_again_for_its_gradients_is_refused():
    """It would see other weights than those that were put in for a task."""

    class Saving(nn.Module):
        def __init__(self, saves):
            super().__init__()
            self.saves, self.inner, self.head = saves, nn.Linear(4, 6), nn.Linear(6, 3)

        def forward(self, x):
            x = x.flatten(1)
            x = checkpoint(self.inner, x, use_reentrant=False) if self.training and self.saves else self.inner(x)
            return self.head(x.relu())

    assert cut_network(Saving(False), (1, 2, 2)).head == "head"
    with pytest.raises(ConfigError, match="but Saving computes inner anew: switch its gradient checkpointing off"):
        cut_network(Saving(True), (1, 2, 2))
