"""Copies of blocks: without a change where they are silent, numbered, counted and trained as the network's own."""

from __future__ import annotations

import copy
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel

from ramet.errors import ConfigError
from ramet.growth import (
    Budget,
    History,
    Net2Net,
    Stacking,
    copy_blocks,
    find_blocks,
    find_coupling,
    grow,
    load_network,
    save_network,
)
from ramet.growth.meter import Meter
from ramet.growth.surgery.layers import find_sites
from ramet.testing.growths import check_growth
from ramet.tracing.probing import largest_change, outputs
from ramet.training import Recipe


class PreNorm(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 5), nn.Linear(5, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class PostNorm(PreNorm):
    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))


class Basic(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.a, self.b = nn.Conv2d(width, 3, 3, padding=1), nn.Conv2d(3, width, 3, padding=1)
        self.first, self.second = nn.BatchNorm2d(3), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.second(self.b(F.relu(self.first(self.a(x))))))


class Scaled(PreNorm):
    """A residual branch with a scale for each channel."""

    def __init__(self, width=6):
        super().__init__(width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return x + self.scale * self.down(F.gelu(self.up(self.norm(x))))


class Body(nn.Module):
    def __init__(self, block, depth=3):
        super().__init__()
        self.embed, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.blocks = nn.ModuleList(block() for _ in range(depth))

    def forward(self, x):
        x = self.embed(x.flatten(1))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def images():
    stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    return nn.Sequential(stem, nn.Sequential(Basic(), Basic()), nn.Flatten(), nn.Linear(4 * 16, 3))


def case(name):
    torch.manual_seed(0)
    network = images() if name == "basic" else Body({"pre": PreNorm, "scaled": Scaled, "post": PostNorm}[name])
    x = torch.randn(5, 3, 6, 6) if name == "basic" else torch.randn(5, 4)
    network(x)  # batch statistics that are not the defaults
    return network.double(), x.double()


def plain(*layers):
    """A block that is no residual one, and a layer behind it."""
    return nn.Sequential(nn.Sequential(nn.Sequential(*layers)), nn.Linear(4, 3)).double()


def blocks_of(network, x):
    return find_blocks(network, x, find_coupling(network, x))


@pytest.mark.parametrize(
    ("name", "names", "ends"),
    [
        ("pre", ["blocks.0", "blocks.1", "blocks.2"], ("down.weight", "down.bias")),
        ("scaled", ["blocks.0", "blocks.1", "blocks.2"], ("down.weight", "down.bias")),
        ("basic", ["1.0", "1.1"], ("second.weight", "second.bias")),
    ],
)
def test_a_silent_copy_changes_nothing_and_learns(name, names, ends):
    network, x = case(name)
    found, _ = blocks_of(network, x)
    assert [block.name for block in found] == names and {block.ends for block in found} == {ends}
    before = outputs(network, x)
    paths = copy_blocks(network, found, [found[0].copied(), found[-1].copied()])
    holder = names[0].rpartition(".")[0]
    assert paths == [f"{holder}.1", f"{holder}.{len(names) + 1}"]
    # What a silent copy adds is zero, and nothing else is computed anew: not even rounding differs.
    assert largest_change(before, outputs(network, x)) == 0
    network(x).square().sum().backward()
    for path in paths:
        block = dict(network.get_submodule(path).named_parameters())
        assert all(float(block[end].grad.abs().max()) > 0 for end in ends)


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (lambda: case("post")[0], "blocks.0", "changes what goes through it by"),
        (lambda: plain(nn.Linear(4, 4), nn.ReLU()), "0.0", "changes what goes through it by"),
        (lambda: plain(nn.Flatten(), nn.PReLU()), "0.0", "none of its weights makes channels"),
    ],
)
def test_blocks_that_cannot_be_copied_are_named(make, name, reason):
    torch.manual_seed(0)
    found, refusals = blocks_of(make(), torch.randn(5, 4, dtype=torch.float64))
    assert not found
    assert reason in next(refusal.reason for refusal in refusals if refusal.name == name)


def test_a_block_that_runs_twice_is_not_copied():
    network, x = case("pre")
    network.forward = types.MethodType(
        lambda self, x: self.head(self.blocks[1](self.blocks[0](self.blocks[0](self.embed(x))))), network
    )
    found, refusals = blocks_of(network, x)
    # The second runs by its number: a copy behind it would never, and one behind the first would push it away.
    assert not found
    assert {refusal.name for refusal in refusals} == {"blocks.0", "blocks.1", "blocks.2"}


@pytest.mark.parametrize("silent", [True, False])
def test_the_optimizer_and_averages_go_along(silent):
    network, x = case("pre")
    decayed = [p for p in network.parameters() if p.dim() > 1]
    plain = [p for p in network.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": plain, "weight_decay": 0.0}], lr=0.01)
    network(x).square().sum().backward()
    optimizer.step()
    average = AveragedModel(network)
    found, _ = blocks_of(network, x)
    copy_blocks(network, found, [found[1].copied(silent=silent)], optimizer=optimizer, averages=[average])
    source, made = network.blocks[1], network.blocks[2]
    for name, parameter in made.named_parameters():
        twin = dict(source.named_parameters())[name]
        group = optimizer.param_groups[0 if parameter.dim() > 1 else 1]
        assert any(parameter is held for held in group["params"])
        if silent:
            assert parameter not in optimizer.state
            assert torch.equal(parameter, torch.zeros_like(twin) if name.startswith("down") else twin)
        else:
            assert torch.equal(parameter, twin) and parameter is not twin
            assert torch.equal(optimizer.state[parameter]["exp_avg_sq"], optimizer.state[twin]["exp_avg_sq"])
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(network.parameters()))
    optimizer.zero_grad()
    network(x).square().sum().backward()
    optimizer.step()
    average.update_parameters(network)


class Configuration:
    """As a model of Hugging Face has one."""

    def __init__(self, depth):
        self.num_hidden_layers, self.layer_types, self.width = depth, [f"kind {i}" for i in range(depth)], 6

    def to_dict(self):
        return vars(self)


class Cached(PreNorm):
    """A block that remembers what it saw under its own number."""

    def __init__(self, config, number):
        super().__init__(config.width)
        self.config, self.layer_idx = config, number

    def forward(self, x, cache):
        assert self.layer_idx not in cache, "two blocks of one number"
        cache[self.layer_idx] = self.config.layer_types[self.layer_idx]
        return super().forward(x)


class Counting(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.config = Configuration(depth)
        self.embed, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.layers = nn.ModuleList(Cached(self.config, number) for number in range(depth))

    def forward(self, x):
        x, self.seen = self.embed(x), {}
        for layer in self.layers[: self.config.num_hidden_layers]:
            x = layer(x, self.seen)
        return self.head(x)


def test_numbers_and_counts_of_blocks_are_kept_right():
    torch.manual_seed(0)
    network, x = Counting().double(), torch.randn(5, 4, dtype=torch.float64)
    found, refusals = blocks_of(network, x)
    assert [block.counted for block in found] == [True] * 3 and not refusals
    assert network.config.num_hidden_layers == 3, "looking changes nothing"
    before = outputs(network, x)
    copy_blocks(network, found, [found[1].copied(), found[0].copied(behind="layers.2")])
    assert [layer.layer_idx for layer in network.layers] == [0, 1, 2, 3, 4]
    assert network.config.num_hidden_layers == 5 and network.layers[2].config is network.config
    assert largest_change(before, outputs(network, x)) == 0
    assert list(network.seen.values()) == ["kind 0", "kind 1", "kind 1", "kind 2", "kind 0"]


def test_the_meter_counts_a_copy_as_what_it_holds():
    network, x = case("pre")
    coupling = find_coupling(network, x)
    sites, (found, _) = find_sites(network, coupling)[0], blocks_of(network, x)
    deeper = copy.deepcopy(network)
    copy_blocks(deeper, found, [found[1].copied()])
    again = find_coupling(deeper, x)
    for unit in ("neurons", "params", "flops"):
        meter = Meter(network, coupling, sites, unit, blocks=found)
        before = meter.size
        cost = meter.add("block", "blocks.1")
        expected = Meter(deeper, again, find_sites(deeper, again)[0], unit).size
        assert before + cost == meter.size == pytest.approx(expected)
        assert meter.add("block", "blocks.1", -1) == pytest.approx(-cost)


@pytest.mark.parametrize(
    ("order", "expected"), [("stack", [0, 1, 2, 0, 1]), ("beside", [0, 0, 1, 1, 2])], ids=["stack", "beside"]
)
def test_stacking_orders_its_copies(order, expected):
    network, x = case("pre")
    for number, block in enumerate(network.blocks):
        block.up.bias.data.fill_(number)
    data = (x, torch.arange(5) % 3, x, torch.arange(5) % 3)
    grown, history = grow(
        network, data, "params=600,step=200,layers=2", f"stacking:order={order}", max_steps=1,
        settings=Recipe(epochs=1, batch_size=5, learning_rate=1e-9, final_learning_rate=0.0),
    )  # fmt: skip
    assert [round(float(block.up.bias.detach().mean())) for block in grown.blocks] == expected
    assert history.steps[-1].loss_after != pytest.approx(history.steps[-1].loss_before, rel=1e-4)
    assert History.from_json(history.to_json()) == history


def test_an_unknown_order_is_refused():
    with pytest.raises(ConfigError, match="order must be among stack, beside, but got 'random'"):
        Stacking(order="random")


@pytest.mark.parametrize("method", ["net2net:noise=0", "stacking:silent=true", "nash:num_neighbours=2,num_steps=1"])
def test_a_deeper_network_is_saved_and_loaded(method, tmp_path):
    torch.manual_seed(0)
    network = Body(PreNorm)
    x, y = torch.randn(24, 1, 2, 2), torch.arange(24) % 3
    grown, history = grow(
        network, (x, y, x, y), "params=1500,step=400,layers=8", method, max_steps=2,
        settings=Recipe(epochs=1, batch_size=12, learning_rate=0.05),
        optimizer=lambda net: torch.optim.AdamW(net.parameters(), lr=0.01),
    )  # fmt: skip
    if not method.startswith("nash"):
        assert len(grown.blocks) > 3
        grew = [step for step in history.steps if step.blocks]
        # Single precision: a step changes the loss by no more than rounding of a few hundred operations.
        assert all(step.loss_after == pytest.approx(step.loss_before, rel=1e-4) for step in grew)
    origin = {"network": None, "in_channels": 1, "image_size": [2, 2], "num_classes": 3}
    assert save_network(grown, tmp_path / "net", steps=history.steps, origin=origin) == ""
    assert torch.equal(load_network(tmp_path / "net", network)(x), grown.eval()(x))


def test_a_growth_that_is_interrupted_ends_as_if_it_had_not_been(tmp_path):
    from ramet.runs import Checkpoints

    torch.manual_seed(0)
    network = Body(PreNorm)
    x, y = torch.randn(24, 4), torch.arange(24) % 3
    settings = Recipe(epochs=1, batch_size=12, learning_rate=0.05)

    class StopHereError(Exception):
        pass

    def run(folder, last=None):
        def after(step):
            if step.number == last:
                raise StopHereError

        return grow(
            network, (x, y, x, y), "params=1500,step=400,layers=8", "net2net", settings=settings, max_steps=2,
            checkpoints=Checkpoints(folder), optimizer=lambda net: torch.optim.AdamW(net.parameters(), lr=0.01),
            after_step=after,
        )  # fmt: skip

    whole, _ = run(tmp_path / "whole")
    with pytest.raises(StopHereError):
        run(tmp_path / "parts", last=1)
    parts, history = run(tmp_path / "parts")
    assert any(step.blocks for step in history.steps)
    assert whole.state_dict().keys() == parts.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))


@pytest.mark.parametrize("make", [lambda epsilon: Stacking(silent=True), lambda epsilon: Net2Net(noise=epsilon)])
def test_methods_pass_their_suite_with_blocks(make):
    network, x = case("pre")
    check_growth(make, network, x, budget=Budget("params", 1e9, step=200.0, layers=2))


def test_stacking_passes_its_suite_but_for_the_function():
    network, x = case("pre")
    budget = Budget("params", 1e9, step=200.0, layers=2)
    check_growth(lambda epsilon: Stacking(), network, x, budget=budget, keeps_function=False)
