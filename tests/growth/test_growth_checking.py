"""What cannot grow is named with its reason and left alone; nothing that changes the outputs is let through."""

import re

import growth_networks
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ramet.errors import ConfigError
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.axes import Axis, cut, fixed, layout_size, normal, regroup, single, unify
from ramet.tracing.coupling import trace
from ramet.tracing.probing import outputs


class Function(nn.Module):
    """A linear layer, something in between, and a linear layer."""

    def __init__(self, between, hidden=6, inner=None):
        super().__init__()
        self.between = between
        self.a, self.b = nn.Linear(4, hidden), nn.Linear(inner or hidden, 3)

    def forward(self, x):
        return self.b(self.between(self.a(x)))


def reasons(network, inputs=None):
    coupling = find_coupling(network, torch.randn(5, 4) if inputs is None else inputs)
    return coupling.groups, {refusal.name: refusal.reason for refusal in coupling.refusals}


@pytest.mark.parametrize("batch", [1, 2, 5, 80])
def test_a_vision_transformer_with_a_class_token_grows_whatever_the_batch(batch):
    groups, named = reasons(growth_networks.Vision(), torch.randn(batch, 3, 4, 4))
    assert {name: group.size for name, group in groups.items()} == growth_networks.GROUPS["vision"]
    assert groups["patches"].kind == "stream" and groups["block.qkv#2"].kind == "blocks"
    assert named["head"] == "it is the network's output"


def test_a_weight_beside_activations_is_no_channel():
    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.more, self.b = nn.Linear(4, 6), nn.Parameter(torch.randn(1, 2)), nn.Linear(8, 3)

        def forward(self, x):
            return self.b(torch.cat([self.a(x).relu(), self.more.expand(len(x), -1)], 1))

    groups, _ = reasons(Biased())
    assert {name: group.size for name, group in groups.items()} == {"a": 6}


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        (lambda h: h.softmax(-1), "softmax runs over it"),
        (lambda h: h - h.mean(-1, keepdim=True), "mean runs over it"),
        (lambda h: F.layer_norm(h, (6,)), "a layer norm takes its statistics"),
        (lambda h: h.sort(-1).values, "aten.sort.default is not known to growth"),
        (lambda h: h[:, [0, 2, 1, 3, 4, 5]], "is not known to growth"),
        (lambda h: h * torch.arange(6.0).to(h), "outputs change|does not run"),
        (lambda h: h.reshape(5, 6), "does not run once it is wider"),
        (lambda h: torch.from_numpy(h.detach().numpy().copy()), "no weight sums over these channels"),
        (lambda h: h @ h.T @ h, "summed over between two activations|sum"),
        (lambda h: torch.roll(h, 1, 1), "it is rolled"),
    ],
)
def test_what_ties_channels_to_each_other_is_refused(between, reason):
    groups, named = reasons(Function(between))
    assert "a" not in groups
    assert re.search(reason, named["a"]), named


@pytest.mark.parametrize(
    "between",
    [
        lambda h: F.silu(h),
        lambda h: h.clamp(-1, 1) * 2 + h.exp(),
        lambda h: torch.where(h > 0, h, 0.1 * h),
        lambda h: torch.cat([h[:, :3], h[:, 3:]], 1),
        lambda h: h.view(h.shape[0], -1, 1).transpose(1, 2).squeeze(1),
        lambda h: h[None].expand(2, -1, -1).mean(0),
        lambda h: h + torch.zeros(h.shape[-1]).to(h),
        lambda h: h.masked_fill(h < 0, 0.0),
        lambda h: torch.einsum("bi,bi->bi", h, h),
    ],
)
def test_what_works_channel_by_channel_is_grown(between):
    groups, _ = reasons(Function(between))
    assert any(name.partition("#")[0] == "a" for name in groups)


def test_only_the_channel_that_is_used_by_number_is_left_alone():
    groups, _ = reasons(Function(lambda h: h + h[:, :1]))
    assert groups["a"].size == 5


def test_tied_weights_are_named():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.up, self.down = nn.Embedding(9, 6), nn.Linear(6, 5), nn.Linear(5, 6)
            self.out = nn.Linear(6, 9, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x):
            x = self.embed(x)
            return self.out(x + self.down(F.gelu(self.up(x))))

    groups, named = reasons(Tied(), torch.randint(0, 9, (4, 3)))
    assert list(groups) == ["up"]
    assert "tied weights" in named["down"]


def test_frozen_layers_are_left_alone():
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    network[0].weight.requires_grad_(False)
    groups, named = reasons(network)
    assert list(groups) == ["2"]
    assert named["0"] == "0.weight is frozen (requires_grad is False)"


def test_a_weight_that_did_not_run_is_named():
    network = Function(F.relu)
    network.spare = nn.Linear(4, 4)
    _, named = reasons(network)
    assert named["spare.weight"] == "it took no part in the trace"


@pytest.mark.parametrize(
    "middle",
    [
        lambda h: h.relu() if h.mean() > 0 else h.tanh(),
        lambda h: h.relu() if float(h[0, 0]) > -1e9 else h.tanh(),
        lambda h: h * h.max().item(),
        lambda h: h[:, sorted(range(h.shape[1]), key=h.mean(0).tolist().__getitem__)],
    ],
)
def test_a_way_that_depends_on_values_is_refused(middle):
    with pytest.raises(ConfigError, match=r"test_growth_checking.py:\d+ turns a tensor into a Python number"):
        find_coupling(Function(middle), torch.randn(2, 4))


def test_a_way_that_depends_on_shapes_and_options_is_followed():
    network = Function(lambda h: h.relu() if h.shape[0] > 1 and h.dim() == 2 else h.tanh())
    assert "a" in reasons(network)[0]


def test_a_network_that_does_not_run_is_refused():
    with pytest.raises(ConfigError, match="must run on a batch of the data, but it failed"):
        find_coupling(nn.Linear(4, 3), torch.randn(2, 5))


def test_tracing_leaves_the_network_as_it_was():
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    network[1].eval()
    modes = [module.training for module in network.modules()]
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    find_coupling(network, torch.randn(2, 1, 4, 4))
    assert modes == [module.training for module in network.modules()]
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not network[0]._forward_hooks and outputs(network, torch.randn(2, 1, 4, 4))[0].shape == (2, 2)


def test_weight_behind_the_dispatcher_is_recognised():
    class Raw(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(5, 4)), nn.Linear(5, 2)

        def forward(self, x):
            return self.b(F.linear(x, self.w.data).tanh())

    groups, _ = reasons(Raw())
    assert groups["w"].size == 5


def test_the_trace_alone_does_not_see_a_number_in_the_forward():
    """The check by growing a copy is what refuses it: without the check the group would be let through."""
    network = Function(lambda h: h.reshape(5, 6))
    assert "a" in trace(network, torch.randn(5, 4)).groups
    assert "a" not in find_coupling(network, torch.randn(5, 4)).groups


def test_layouts_by_hand():
    channels, other = Axis(4), Axis(6)
    flat = regroup([fixed(2, "batch"), single(channels), fixed(3, "height")], [2, 12], "torn")[1]
    weight = Axis(18)
    unify(single(weight), (*flat, *((other,),)))
    assert [[axis.size for axis in term] for term in normal(single(weight))] == [[4, 3], [6]]
    assert normal(single(weight))[0][0] is channels.root()
    first, second = cut(single(other), [2, 4])
    assert [axis.size for term in normal(single(other)) for axis in term] == [2, 4]
    assert first[0][0].reason is None and second[0][0].reason is None
    torn = regroup([single(Axis(6)), single(Axis(4))], [8, 3], "torn")
    assert [term[0].reason for (term,) in torn] == ["torn", "torn"]


def test_what_is_fixed_stays_whole():
    """A text moved on by a place is cut and joined again; examples and places are still told apart in a reshape."""
    places = fixed(7, "the text")
    pieces = cut(places, [1, 6])
    assert [layout_size(piece) for piece in pieces] == [1, 6] and len(normal(places)) == 1
    moved = (pieces[1][0], (Axis(1, "a pad"),))
    for batch in (fixed(3, "examples"), single(Axis(3))):
        rows, channels = Axis(21), Axis(4)
        (flat, kept) = regroup([batch, moved, single(channels)], [21, 4], "torn")
        unify(flat, single(rows))
        back = regroup([flat, kept], [3, 7, 4], "torn")
        assert [layout_size(layout) for layout in back] == [3, 7, 4] and channels.reason is None


@pytest.mark.parametrize(("shape", "mask_shape"), [((3, 4), (3,)), ((3, 5, 4), (3, 5)), ((3, 5, 4), (3,))])
def test_rows_may_be_found_by_a_mask(shape, mask_shape):
    """It stands in the place of as many dimensions as it has itself; what it touches cannot grow, the rest can."""
    mask = torch.arange(3 * 5).reshape(3, 5) % 2 == 0 if len(mask_shape) == 2 else torch.arange(3) > 0
    groups, _ = reasons(Function(lambda h: h[mask]), torch.randn(shape))
    assert groups.keys() == {"a"}
    groups, named = reasons(Function(lambda h: h[:, torch.arange(6) % 2 == 0], inner=3), torch.randn(3, 4))
    assert "a" not in groups and named["a"]


def test_ties_are_transitive_and_carry_reasons():
    a, b, c = Axis(3), Axis(3), Axis(3)
    unify(single(a), single(b))
    unify(single(b), single(c))
    assert a.root() is b.root() is c.root()
    c.fix("because")
    assert a.reason == "because"
    whole, left, right = Axis(6), Axis(2), Axis(3)
    whole.fix("whole")
    unify(single(whole), ((left, right),))
    assert left.reason == right.reason == "whole"


@pytest.mark.parametrize(
    "between",
    [
        lambda h: h * float(torch.ones(3).all()),
        lambda h: h if torch.ones(5, dtype=torch.bool).all() else -h,
        lambda h: h[: int(torch.arange(5).max()) + 1],
        lambda h: h * torch.full((2,), 3.0).tolist()[0],
    ],
)
def test_numbers_that_are_the_same_in_every_run_may_be_read(between):
    """Models make masks of ones and ask whether they mask anything."""
    groups, _ = reasons(Function(between))
    assert groups["a"].size == 6


class Sneaky(nn.Module):
    """Reads a value that came from the input by way of a tensor made of constants."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        counter = torch.zeros(())
        counter += x.sum()
        return self.b(self.a(x) * counter.item())


def test_a_constant_that_the_input_changed_is_no_constant():
    with pytest.raises(ConfigError, match="turns a tensor into a Python number"):
        find_coupling(Sneaky(), torch.randn(5, 4))


@pytest.mark.parametrize(
    "activation",
    [
        nn.Hardswish(),
        nn.Hardswish(inplace=True),
        nn.Mish(inplace=True),
        nn.Threshold(0.1, 0.0, inplace=True),
        nn.LogSigmoid(),
        nn.SiLU(inplace=True),
    ],
    ids=str,
)
def test_activations_of_all_kinds_let_their_channels_grow(activation):
    """MobileNetV3 and its kin have hard swish throughout."""
    network = nn.Sequential(nn.Linear(4, 6), activation, nn.Linear(6, 2)).eval()
    coupling = find_coupling(network, torch.randn(3, 4))
    assert list(coupling.groups) == ["0"] and [refusal.name for refusal in coupling.refusals] == ["2"]
