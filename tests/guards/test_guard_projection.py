"""Orthogonal projection over many calls, models and optimizers, and within its memory."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
from exact_projection import distance, exact, rounding
from guarded_layer import double, guarded_update, remembered, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ramet.errors import ConfigError
from ramet.guards import OrthogonalProjection, WeightPlasticity, chain
from ramet.guards.closing import closed_form
from ramet.params import named_params
from ramet.testing.guards import make_network, make_optimizer, train

BOUNDED = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.mark.parametrize("kind", ["sgd", "adamw", "plain"])
def test_nothing_leaks_along_closed_directions(kind):
    """Momentum, weight decay and adaptive steps would; projecting only the gradient would let them."""
    layer, x = seeded(nn.Linear, 8, 4).double(), seeded(double, 3, 8)
    optimizer = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
        "plain": lambda p: torch.optim.SGD(p, lr=0.1),
    }[kind](layer.parameters())
    for step in range(5):  # momentum builds up before anything is closed
        optimizer.zero_grad()
        layer(seeded(double, 6, 8, seed=step)).square().mean().backward()
        optimizer.step()
    guard = remembered(layer, x, regularisation=0.0)
    before, weight = layer(x).detach(), layer.weight.detach().clone()
    for step in range(20):
        optimizer.zero_grad()
        layer(seeded(double, 6, 8, seed=step)).square().mean().backward()
        with guard.step(named_params(layer), 0.1):
            optimizer.step()
    torch.testing.assert_close(layer(x).detach(), before, rtol=0, atol=1e-9)
    assert (layer.weight.detach() - weight).norm() > 0.1


def test_in_a_chain_the_projection_has_the_last_word():
    layer, x = seeded(nn.Linear, 6, 3).double(), seeded(double, 2, 6)
    plasticity, projection = WeightPlasticity(5.0), OrthogonalProjection(0.0)
    guard = chain(plasticity, projection)
    with guard.watch(layer):
        layer(x).square().mean().backward()
    guard.remember(named_params(layer))
    with torch.no_grad():
        layer.weight += seeded(double, 3, 6, seed=9)  # away from the anchor, so that plasticity pulls
    before = layer(x).detach()
    raw, moved = guarded_update(guard, layer)
    torch.testing.assert_close(layer(x).detach(), before)
    assert not torch.allclose(moved["weight"], raw["weight"])


def test_the_current_model_is_not_in_its_own_projection():
    """Section 3.3: inputs count only once the model that made them is finished."""
    layer, x = seeded(nn.Linear, 4, 2), seeded(torch.randn, 3, 4)
    guard = OrthogonalProjection()
    with guard.watch(layer):
        layer(x)
    assert guard.report() == {"open_share": 1.0, "least_open_share": 1.0, "closed_layers": 0.0}
    guard.remember(named_params(layer))
    assert guard.report()["open_share"] < 1.0


def test_evaluation_outside_watch_is_not_gathered():
    layer = seeded(nn.Linear, 4, 2)
    guard = OrthogonalProjection()
    with guard.watch(layer):
        pass
    layer(seeded(torch.randn, 3, 4))
    guard.remember(named_params(layer))
    assert guard.report()["closed_layers"] == 0.0


def test_only_the_path_that_ran_is_closed():
    network, guard = make_network(), OrthogonalProjection()
    train(guard, network, make_optimizer(network), path=1, remember=True)
    assert set(guard.open_shares()) == {"shared.weight+bias", "branches.1.weight", "heads.1.weight+bias"}


@BOUNDED
@given(
    width=st.integers(2, 12),
    calls=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    split=st.integers(0, 4),
    seed=st.integers(0, 2**31),
    lam=st.floats(0.01, 10),
)
def test_many_calls_and_models_equal_the_closed_form(width, calls, split, seed, lam):
    """Gathered over calls, folded when there are many, closed over several models: always Eq. 7 of all inputs."""
    layer = nn.Linear(width, 2, bias=False).double()
    guard, batches = OrthogonalProjection(lam), [seeded(double, n, width, seed=seed + i) for i, n in enumerate(calls)]
    for index, batch in enumerate(batches):
        with guard.watch(layer):
            layer(batch)
        if index == split:
            guard.remember(named_params(layer))
    guard.remember(named_params(layer))
    (matrix,) = guard.state_dict()["matrix/weight"]
    seen = torch.cat(batches).mT
    assert distance(matrix, exact(seen, lam)) <= rounding(seen, lam, parts=2)  # closed twice


@BOUNDED
@given(width=st.integers(4, 20), rank=st.integers(1, 3), seed=st.integers(0, 2**31), lam=st.floats(0.0, 10))
def test_limited_rank_is_exact_while_inputs_fit_in_it(width, rank, seed, lam):
    basis = seeded(double, width, rank, seed=seed)
    updates, shares = [], []
    for limit in (rank, rank + 1, None):
        layer = seeded(nn.Linear, width, 3, bias=False).double()
        guard = OrthogonalProjection(lam, rank=limit)
        for call in range(4):
            with guard.watch(layer):
                layer((basis @ seeded(double, rank, 5, seed=seed + call)).mT)
            guard.remember(named_params(layer))
        updates.append(guarded_update(guard, layer)[1]["weight"])
        shares.append(guard.report()["open_share"])
        assert shares[-1] >= 1 - rank / width - 1e-9
    for place in (0, 1):
        torch.testing.assert_close(updates[place], updates[2], rtol=1e-6, atol=1e-6)
        assert shares[place] == pytest.approx(shares[2], abs=1e-6)


def test_limited_rank_keeps_the_strongest_directions():
    layer = seeded(nn.Linear, 10, 3, bias=False).double()
    strong = seeded(double, 10, 1)
    guard = OrthogonalProjection(0.01, rank=2)
    for call in range(6):
        with guard.watch(layer):
            layer(torch.cat([10 * strong, 0.1 * seeded(double, 10, 4, seed=call + 1)], dim=1).mT)
        guard.remember(named_params(layer))
    assert guard.report()["open_share"] >= 0.8 - 1e-9
    before = layer(strong.mT).detach()
    guarded_update(guard, layer)
    assert (layer(strong.mT).detach() - before).norm() < 0.02


def test_forgetting_and_reopening():
    layer, x = seeded(nn.Linear, 6, 3, bias=False).double(), seeded(double, 4, 6)
    guard = OrthogonalProjection(1.0, forgetting=0.5, reopen_every=2)
    for batch in (x, 2 * x):
        with guard.watch(layer):
            layer(batch)
        guard.remember(named_params(layer))
    expected = closed_form(torch.cat([0.5**0.5 * x, 2 * x]).mT, 1.0)
    torch.testing.assert_close(guard.state_dict()["matrix/weight"][0], expected)
    assert guard.open_shares()["weight"] == pytest.approx(float(expected.diagonal().mean()))
    guard.start_epoch(1)
    assert guard.report()["closed_layers"] == 1.0
    guard.start_epoch(2)
    assert guard.report() == {"open_share": 1.0, "least_open_share": 1.0, "closed_layers": 0.0}


def test_share_of_open_directions_falls_to_nothing_with_all_inputs_and_slowly_with_means():
    """FACTS: as written, the projection only ever closes, until nothing can be learnt."""
    shares = {}
    for inputs in ("all", "mean"):
        layer, guard = seeded(nn.Linear, 10, 3), OrthogonalProjection(1.0, inputs=inputs)
        for call in range(5):
            with guard.watch(layer):
                layer(seeded(torch.randn, 64, 10, seed=call))
            guard.remember(named_params(layer))
        shares[inputs] = guard.report()["open_share"]
    assert shares["all"] < 0.01 < 0.8 < shares["mean"]


def test_memory_is_what_the_formula_says_and_is_known_before():
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, groups=8), nn.Linear(7, 2))
    guard = OrthogonalProjection()
    memory = guard.memory_of(network)
    assert memory.num_bytes == 4 * ((27 + 1) ** 2 + 2 * 8 + 8 * (9 + 1) ** 2 + (7 + 1) ** 2)
    assert memory.unplanned == () and "2.weight" in str(memory) and "not known before" not in str(memory)
    kibibytes = [line.split()[-1] for line in str(memory).splitlines()[1:]]
    values = [28**2, 8, 8, 8 * 10**2, 8**2]
    assert kibibytes == [f"{4 * each / 1024:.1f}" for each in (*values, sum(values))]
    assert guard.state_dict().keys() == {"epoch"}
    with guard.watch(network[:3]):
        network[:3](torch.randn(2, 3, 8, 8))
    guard.remember(named_params(network))
    parts = ("matrix/", "counts/")
    held = sum(t.numel() * t.element_size() for name, t in guard.state_dict().items() if name.startswith(parts))
    assert held == memory.num_bytes - 4 * (7 + 1) ** 2  # the linear layer has not run, and takes nothing


def test_memory_of_indices_is_a_number_each():
    (layer,) = OrthogonalProjection().memory_of(nn.Embedding(5, 2)).layers
    assert (layer.kind, layer.num_bytes) == ("diagonal", 4 * 5)


def test_memory_of_what_is_gathered_does_not_grow_with_the_inputs():
    layer, guard = nn.Linear(4, 2, bias=False), OrthogonalProjection()
    sizes = []
    with guard.watch(layer):
        for _ in range(4):
            layer(torch.randn(9, 4))
            sizes.append(sum(tensor.numel() for name, tensor in guard.state_dict().items() if name != "epoch"))
    assert sizes == [16] * 4, "more inputs than the width are held as their X X'"
    layer, guard = nn.Linear(8, 2, bias=False), OrthogonalProjection(rank=2)
    with guard.watch(layer):
        for _ in range(4):
            layer(torch.randn(9, 8))
            columns = [tensor for name, tensor in guard.state_dict().items() if name.startswith("columns/")]
            assert [tensor.shape for tensor in columns] == [(1, 8, 2)], "no more columns than the rank"


def test_memory_is_logged_before_it_is_allocated(caplog):
    layer = nn.Linear(3, 2)
    with caplog.at_level(logging.INFO, logger="ramet.guards"), OrthogonalProjection().watch(layer):
        pass
    assert "memory of the projections" in caplog.text and "held as" in caplog.text


def test_wide_layers_have_limited_rank_or_are_refused():
    layer = nn.Linear(400, 2)
    memory = OrthogonalProjection(max_width=100).memory_of(layer)
    assert memory.layers[0].rank == 100**2 // 401 and memory.num_bytes == 4 * (401 + 1) * 24 <= 4 * 100**2
    assert OrthogonalProjection(max_width=2).memory_of(layer).layers[0].rank == 1, "at least one direction"
    assert memory.layers[0].kind == "rank 24" and "rank 24" in str(memory)
    for options in ({"max_width": 401}, {"rank": 401}):  # as wide as it may be, or of full rank: as a matrix
        whole = OrthogonalProjection(**options).memory_of(layer).layers[0]
        assert (whole.rank, whole.num_bytes, whole.kind) == (None, 4 * 401**2, "whole")
    assert OrthogonalProjection(max_width=100, rank=7).memory_of(layer).layers[0].rank == 7, "a rank that is given"
    guard = OrthogonalProjection(max_width=100)
    with guard.watch(layer):
        layer(torch.randn(50, 400))
    guard.remember(named_params(layer))
    assert guard.state_dict()["basis/weight+bias"].shape == (1, 401, 24)
    with pytest.raises(ConfigError, match=r"at most max_width=100 wide, but weight.bias is 401 wide"):
        OrthogonalProjection(max_width=100, wide="refuse").memory_of(layer)
    with (
        pytest.raises(ConfigError, match=r"at most 1000 bytes, but these take 643204, of which weight.bias"),
        OrthogonalProjection(max_bytes=1000).watch(layer),
    ):
        pass


def test_changed_widths_are_refused_until_forgotten():
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    guard = remembered(network, torch.randn(2, 3))
    network[1] = nn.Linear(5, 2)
    network[0] = nn.Linear(3, 5)
    with pytest.raises(ConfigError, match="keeps its shape"):
        guarded_update(guard, network)
    with pytest.raises(ConfigError, match="keeps its shape"), guard.watch(network):
        pass
    guard.forget()
    guarded_update(guard, network)


def test_frozen_biases_take_no_part():
    layer, x = seeded(nn.Linear, 5, 3).double(), seeded(double, 2, 5)
    layer.bias.requires_grad_(False)
    guard = remembered(layer, x, regularisation=0.0)
    before = layer(x).detach()
    _, moved = guarded_update(guard, layer)
    torch.testing.assert_close(layer(x).detach(), before)
    assert moved["weight"].norm() > 0.1


@pytest.mark.parametrize(
    "options", [{"regularisation": 0.0}, {"regularisation": 0.7}, {"regularisation": 0.7, "rank": 4}]
)
def test_a_bias_that_is_frozen_after_it_was_remembered(options):
    """The weight then has the projection of its own inputs, without the bias's 1, also for the models that follow."""
    layer, first, second = seeded(nn.Linear, 5, 3).double(), seeded(double, 1, 5), seeded(double, 1, 5, seed=4)
    guard = remembered(layer, first, **options)
    layer.bias.requires_grad_(False)
    for seen in (first, torch.cat([first, second])):
        before = layer(seen).detach()
        raw, moved = guarded_update(guard, layer)
        if options["regularisation"] == 0:
            torch.testing.assert_close(layer(seen).detach(), before)
            assert moved["weight"].norm() > 0.1
        else:
            torch.testing.assert_close(moved["weight"], raw["weight"] @ exact(seen.mT, 0.7))
        with guard.watch(layer):
            layer(second)
        guard.remember(named_params(layer))
    assert set(guard.open_shares()) == {"weight+bias"}


def test_protect_leaves_layers_out():
    network = make_network()
    guard = OrthogonalProjection(protect=["shared.*"])
    train(guard, network, make_optimizer(network), remember=True)
    assert set(guard.open_shares()) == {"shared.weight+bias"}


def test_autocast_inputs():
    layer, guard = nn.Linear(4, 2), OrthogonalProjection()
    with torch.autocast("cpu", dtype=torch.bfloat16), guard.watch(layer):
        layer(layer(torch.randn(3, 4)).repeat(1, 2)).float().sum().backward()  # the second input is bfloat16
    guard.remember(named_params(layer))
    assert guard.state_dict()["matrix/weight+bias"].dtype == torch.float32
    assert guard.report()["open_share"] < 1


def test_keyword_inputs():
    layer, guard = nn.Linear(4, 2), OrthogonalProjection()
    with guard.watch(layer):
        layer(input=torch.randn(3, 4))
    guard.remember(named_params(layer))
    assert guard.report()["closed_layers"] == 1


def test_compiled_modules_are_heard():
    for compile_it in (lambda net: torch.compile(net, backend="eager"), _compiled_in_place):
        network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        compiled, x = compile_it(network), torch.randn(5, 4)
        compiled(x)  # compiled without hooks
        guard = OrthogonalProjection()
        with guard.watch(compiled):
            compiled(x)
        guard.remember(named_params(compiled))
        assert set(guard.open_shares()) == {"0.weight+bias", "2.weight+bias"}


def _compiled_in_place(network):
    network.compile(backend="eager")
    return network


def test_a_copy_of_a_watched_network_holds_no_guard():
    layer, guard = nn.Linear(3, 2), OrthogonalProjection()
    with guard.watch(layer):
        layer(torch.randn(2, 3))
    assert not copy.deepcopy(layer)._forward_pre_hooks


@pytest.mark.parametrize(
    "arguments",
    [
        {"regularisation": -1.0},
        {"regularisation": float("nan")},
        {"inputs": "some"},
        {"rank": 0},
        {"max_width": 0},
        {"wide": "ignore"},
        {"forgetting": 0.0},
        {"reopen_every": 0},
    ],
)
def test_bad_values_are_refused(arguments):
    with pytest.raises(ConfigError, match="but got"):
        OrthogonalProjection(**arguments)


def test_indices_of_several_calls_are_counted_together():
    table, guard = nn.Embedding(4, 2), OrthogonalProjection(1.0)
    with guard.watch(table):
        for rows in ([0, 1], [1, 1, 3]):
            table(torch.tensor(rows))
    guard.remember(named_params(table))
    assert guard.open_shares()["weight"] == pytest.approx((1 / 2 + 1 / 4 + 1 + 1 / 2) / 4)  # lambda / (lambda + count)
    with guard.watch(table):  # another model
        table(torch.tensor([3]))
    guard.remember(named_params(table))
    assert guard.open_shares()["weight"] == pytest.approx((1 / 2 + 1 / 4 + 1 + 1 / 3) / 4)


class Passing(torch.autograd.Function):
    """A kernel of one's own: what it multiplies is hidden from torch's functions."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return nn.functional.conv2d(x, weight, bias, padding=1, stride=2)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return (
            None,
            torch.nn.grad.conv2d_weight(x, weight.shape, gradient, padding=1, stride=2),
            gradient.sum((0, 2, 3)),
        )


class HiddenConv(nn.Conv2d):
    """Calls that kernel."""

    def forward(self, x):
        return Passing.apply(x, self.weight, self.bias)


@pytest.mark.parametrize("kind", [nn.Conv2d, HiddenConv])
def test_columns_are_the_mean_patches_of_every_position(kind):
    """As the orthogonal weight modification has it: position after position, the mean over samples, by Eq. 8."""
    layer, x = seeded(kind, 2, 3, 3, padding=1, stride=2).double(), seeded(double, 5, 2, 6, 6)
    guard = remembered(layer, x, regularisation=0.5, inputs="columns")
    mean = nn.functional.pad(x.mean(0), (1, 1, 1, 1))
    expected = torch.eye(2 * 9 + 1).double()
    for row in range(0, 6, 2):
        for column in range(0, 6, 2):
            patch = torch.cat([mean[:, row : row + 3, column : column + 3].reshape(-1), torch.ones(1).double()])
            seen = expected @ patch
            expected = expected - torch.outer(seen, seen) / (0.5 + patch @ seen)
    found = guard.state_dict()["matrix/weight+bias"][0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    pooled = remembered(layer, x, regularisation=0.5, inputs="mean").state_dict()["matrix/weight+bias"][0]
    assert not torch.allclose(found, pooled, atol=1e-3)


def test_columns_of_a_transposed_convolution_are_the_mean_pixels():
    layer, x = seeded(nn.ConvTranspose2d, 3, 2, 2, bias=False).double(), seeded(double, 5, 3, 4, 4)
    guard = remembered(layer, x, regularisation=0.5, inputs="columns")
    expected = closed_form(x.mean(0).reshape(3, 16), 0.5)
    torch.testing.assert_close(guard.state_dict()["matrix/weight^T"][0], expected, rtol=0, atol=1e-10)


def test_columns_of_a_linear_layer_are_one_column():
    layer, x = seeded(nn.Linear, 4, 2, bias=False).double(), seeded(double, 5, 3, 4)
    states = [remembered(layer, x, inputs=inputs).state_dict() for inputs in ("columns", "mean")]
    assert torch.equal(*(state["matrix/weight"] for state in states))
