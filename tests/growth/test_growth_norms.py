"""Channels under layer norms and root-mean-square norms grow without a change; where that cannot be, it is said why."""

from __future__ import annotations

import copy
import math

import growth_networks
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ramet.errors import ConfigError
from ramet.growth import grow, load_network, save_network
from ramet.growth.methods import Firefly, GradMax, Nash, Net2Net, RandomChoice
from ramet.growth.surgery.widening import Widening
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.checking import find_coupling
from ramet.testing.growths import check_growth, grow_once, make_context
from ramet.tracing.probing import largest_change, outputs
from ramet.training import Recipe


def chain(norm, hidden=4):
    """A layer, a norm over its channels, and a layer that reads them."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, hidden), norm, nn.Linear(hidden, 2)).double()
    if getattr(norm, "weight", None) is not None:
        norm.weight.data = torch.rand(hidden, dtype=torch.float64) + 0.5
    return network


def test_a_layer_norm_by_hand():
    """Four channels and two new ones: the means of the others, and the norm is told that there are six."""
    network, x = chain(nn.LayerNorm(4, eps=0.3)), torch.randn(7, 3, dtype=torch.float64)
    nn.init.normal_(network[1].bias)
    weight, scale = network[0].weight.detach().clone(), network[1].weight.detach().clone()
    before, coupling = outputs(network, x), find_coupling(network, x)
    read = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    widen(network, coupling, {"0": Widening(num_new=2, outgoing={"2.weight": read})})
    torch.testing.assert_close(network[0].weight, torch.cat([weight, weight.mean(0, keepdim=True).expand(2, 3)]))
    torch.testing.assert_close(network[1].weight[:4], scale * math.sqrt(4 / 6))
    assert network[1].eps == pytest.approx(0.3 * 4 / 6) and network[1].normalized_shape == (6,)
    assert network[1].bias[4:].tolist() == [0.0, 0.0]
    torch.testing.assert_close(network[2].weight[:, 4:], read)
    # Double precision, a chain of a few dozen operations on numbers of order one: some hundred times 1e-16.
    assert largest_change(before, outputs(network, x)) < 1e-13


@pytest.mark.parametrize("eps", [0.3, None])
def test_a_root_mean_square_norm_by_hand(eps):
    network, x = chain(nn.RMSNorm(4, eps=eps)), torch.randn(7, 3, dtype=torch.float64)
    before, coupling = outputs(network, x), find_coupling(network, x)
    widen(network, coupling, {"0": Widening(num_new=1, outgoing={"2.weight": torch.ones(2, 1)})})
    assert network[0].weight[4:].abs().sum() == 0 and network[0].bias[4:].abs().sum() == 0
    assert network[1].eps == pytest.approx((eps or torch.finfo(torch.float64).eps) * 4 / 5)
    assert largest_change(before, outputs(network, x)) < 1e-13


def test_units_under_a_norm_are_not_split():
    network, x = chain(nn.LayerNorm(4)), torch.randn(7, 3, dtype=torch.float64)
    coupling = find_coupling(network, x)
    with pytest.raises(ConfigError, match="units of 0 cannot be split, because 1 takes its statistics over them"):
        widen(network, coupling, {"0": Widening(sources=torch.tensor([1]))})


class Own(nn.Module):
    """Two layers with something of a test's own between them."""

    def __init__(self, between, width=4, reads=4):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.between = nn.Linear(3, width), nn.Linear(reads, 2), between
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.rms, self.epsilon = nn.RMSNorm(width), 0.1
        for norm in (self.norm, self.other, self.rms):
            nn.init.uniform_(norm.weight, 0.5, 1.5)

    def forward(self, x):
        return self.b(self.between(self, self.a(x)))


def written_out(self, h, spoil=lambda mean: 0.0, weight=lambda w: w, epsilon=None):
    mean = (h * h).mean(-1, keepdim=True)
    return h / (mean + (self.epsilon if epsilon is None else epsilon)).sqrt() * weight(self.scale) + spoil(mean)


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        (lambda s, h: s.other(s.norm(h) + h), "it normalises what another layer norm made"),
        (lambda s, h: s.norm(s.scale * h), "scale treats these channels one by one, and a layer norm needs their mean"),
        (lambda s, h: s.norm(h) + h, "b.weight reads these channels without a layer norm in front"),
        (lambda s, h: s.norm(h) + s.rms(h), "a layer norm and a root-mean-square norm run over these channels"),
        (lambda s, h: F.layer_norm(h, (4,)), "it has no weights to make up for more channels"),
        (lambda s, h: F.layer_norm(h, (4,), s.scale, None, 0.7), "no number of the module is its epsilon, 0.7"),
        (lambda s, h: F.layer_norm(h, (4,), s.scale.exp(), None, 0.1), "its scale is computed from scale"),
        (lambda s, h: F.layer_norm(h[:, None], (1, 4), s.scale[None], None, 0.1)[:, 0], "channels and positions"),
        (lambda s, h: F.rms_norm(h, (4,), 2 * s.scale, 0.1), "its scale is computed from scale"),
        (lambda s, h: written_out(s, h, weight=torch.exp), "its scale is computed from scale"),
        (lambda s, h: written_out(s, h, epsilon=0.7), "no number of the module is its epsilon, 0.7"),
        (lambda s, h: written_out(s, h, spoil=lambda mean: mean), "its mean of squares is used otherwise too"),
        (lambda s, h: h * (h * h).mean(-1, keepdim=True), "mean runs over it"),
        (lambda s, h: s.rms(h).sigmoid(), "the outputs change"),
    ],
)
def test_what_cannot_be_exact_is_refused_with_the_reason(between, reason):
    coupling = find_coupling(Own(between), torch.randn(5, 3))
    assert "a" not in coupling.groups
    assert reason in next(refusal.reason for refusal in coupling.refusals if refusal.name == "a")


@pytest.mark.parametrize(
    "between",
    [
        lambda s, h: s.norm(h).relu(),
        lambda s, h: s.norm(h + 0.1).relu() - s.other(2 * h),
        lambda s, h: s.rms(h) * s.scale,
        lambda s, h: s.rms(s.scale * h + s.rms(h)),
        lambda s, h: written_out(s, h),
        lambda s, h: written_out(s, h, weight=lambda w: 1 + w),
        lambda s, h: F.layer_norm(h, h.shape[-1:], s.scale + 0.3, None, s.epsilon),
    ],
)
def test_what_can_be_exact_is_grown(between):
    network, x = Own(between).double(), torch.randn(5, 3, dtype=torch.float64)
    coupling, before = find_coupling(network, x), outputs(network, x)
    assert coupling.groups["a"].kind == "stream"
    widen(network, coupling, {"a": Widening(num_new=3, outgoing={"b.weight": torch.randn(2, 3)})})
    assert network.a.out_features == 7 and largest_change(before, outputs(network, x)) < 1e-12
    again = find_coupling(network, x)
    assert again.groups["a"].size == 7, "it can grow again"


def test_a_layer_norm_over_a_concatenation_is_refused():
    network = Own(lambda s, h: F.layer_norm(torch.cat([h, 2 * h], 1), (8,), s.both, None, s.epsilon), reads=8)
    network.both = nn.Parameter(torch.rand(8))
    (reason,) = [r.reason for r in find_coupling(network, torch.randn(5, 3)).refusals if r.name == "a"]
    assert "it runs over a concatenation, whose pieces have means of their own" in reason


def test_two_norms_of_one_module_do_not_share_an_epsilon():
    def between(self, h):
        few = F.rms_norm(h[:, :2], (2,), self.few, self.epsilon)
        return F.rms_norm(h, (4,), self.scale, self.epsilon) + torch.cat([few, h[:, 2:]], 1)

    network = Own(between)
    network.few = nn.Parameter(torch.rand(2))
    named = {r.name: r.reason for r in find_coupling(network, torch.randn(5, 3)).refusals}
    assert "another norm of the module has the same epsilon" in named["a"]


NETWORKS = growth_networks.build()


@pytest.mark.parametrize("name", ["vision", "rotary"])
def test_new_channels_of_net2net_learn_and_part(name):
    """What reads them is drawn, so that each gets a gradient of its own although it does nothing yet.

    Where only tied words read what a layer makes, the words come first: it has its gradient a step later.
    """
    network, x = copy.deepcopy(NETWORKS[name])
    context = make_context(network, x)
    (stream,) = (group for group in context.coupling.groups.values() if group.norms)
    method = Net2Net(noise=0.0)
    proposal = method.propose(context)
    chosen = [i for i, candidate in enumerate(proposal.candidates) if candidate.where == stream.name][:2]
    before = outputs(network, x)
    grown = context.grown(method.apply(context, proposal, chosen))
    assert largest_change(before, outputs(grown, x)) < 1e-12
    optimizer = torch.optim.SGD(grown.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        grown(x).square().mean().backward()
        optimizer.step()
    for slot in stream.slots:
        if slot.role == "out":
            first, second = dict(grown.named_parameters())[slot.tensor].grad.movedim(slot.dim, 0)[-2:]
            assert float(first.abs().max()) > 1e-9 and float((first - second).abs().max()) > 1e-9, slot.tensor


@pytest.mark.parametrize(
    "make",
    [
        lambda epsilon: Firefly(epsilon=epsilon, num_new=2, num_steps=2, layer_width=2),
        lambda epsilon: GradMax(epsilon=epsilon, num_new=2, num_iterations=1, num_batches=1),
        lambda epsilon: RandomChoice(num_new=2, epsilon=epsilon),
        lambda epsilon: Net2Net(noise=epsilon),
    ],
)
def test_methods_pass_their_suite_on_a_network_with_norms(make):
    network = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    check_growth(make, network, torch.randn(6, 4, dtype=torch.float64))


@pytest.mark.parametrize(
    "method", [Firefly(num_new=3, num_steps=2, layer_width=0), Nash(num_neighbours=2, num_steps=1)]
)
def test_methods_choose_channels_under_norms(method):
    network = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    edit, grown = grow_once(method, make_context(network, torch.randn(6, 4)))
    assert edit.widenings["0"].num_new == grown[0].out_features - 5 > 0


class Classifier(nn.Module):
    """An image classifier whose stream runs under layer norms."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.last = nn.Linear(16, 6), nn.LayerNorm(6), nn.LayerNorm(6)
        self.up, self.down, self.head = nn.Linear(6, 5), nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.embed(x.flatten(1))
        return self.head(self.last(x + self.down(F.gelu(self.up(self.norm(x))))))


def test_a_growth_widens_the_stream_and_is_loaded_again(tmp_path):
    torch.manual_seed(0)
    x, y = torch.randn(60, 1, 4, 4), torch.arange(60) % 3
    network = Classifier()
    grown, history = grow(
        network, (x[:40], y[:40], x[40:], y[40:]), "neurons=17, step=3", "net2net",
        settings=Recipe(epochs=1, batch_size=20, learning_rate=0.01), max_steps=2,
        optimizer=lambda net: torch.optim.AdamW(net.parameters(), lr=0.01),
    )  # fmt: skip
    assert grown.embed.out_features > 6 and grown.norm.normalized_shape == (grown.embed.out_features,)
    for step in history.steps[1:]:
        # Growing changes the loss by rounding alone: net2net's noise is on splits, of 1 % of a weight.
        assert step.loss_after == pytest.approx(step.loss_before, rel=1e-2)
    origin = {"network": None, "in_channels": 1, "image_size": [4, 4], "num_classes": 3}
    assert save_network(grown, tmp_path / "net", steps=history.steps, origin=origin) == ""
    again = load_network(tmp_path / "net", network)
    assert torch.equal(again(x), grown.eval()(x))
    exported = torch.export.load(tmp_path / "net" / "network.pt2").module()
    torch.testing.assert_close(exported(x), again(x))
