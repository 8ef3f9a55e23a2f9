"""TRGP, NSAS, O-LoRA and InfLoRA: each formula against a plain twin, and what it promises."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from guarded_layer import double, seeded
from torch import nn

from ramet.data import load
from ramet.errors import ConfigError
from ramet.guards import (
    NoGuard,
    NoveltyConstraints,
    OrthogonalAdapters,
    OrthogonalProjection,
    TrustRegionProjection,
    chain,
    design_adapters,
    make_guard,
)
from ramet.guards.adapters import apart_from, unread_rows
from ramet.guards.novelty import distance, novelty, with_model
from ramet.params import named_params
from ramet.ranking import SupernetSetup
from ramet.searching import Search, SearchPlan
from ramet.spaces import Cells64
from ramet.training import Settings

# Trust regions.


def two_tasks(layer, bias_rows=20):
    """A guard that has seen two tasks in two planes of the inputs."""
    guard, planes = TrustRegionProjection(1.0), [seeded(double, 2, 6, seed=n) for n in (3, 4)]
    for plane in planes:
        with guard.watch(layer):
            layer(seeded(double, bias_rows, 2) @ plane).sum().backward()
        guard.remember(named_params(layer))
    return guard, planes


def test_the_trust_region_is_the_share_of_the_gradient_in_each_tasks_inputs():
    layer = seeded(nn.Linear, 6, 3, bias=False).double()
    guard, planes = two_tasks(layer)
    bases = [torch.linalg.qr(plane.T)[0] for plane in planes]
    for gradient in (seeded(double, 3, 6, seed=7), seeded(double, 3, 2) @ planes[1], seeded(double, 3, 6, seed=8)):
        layer.weight.grad = gradient
        shares = [float((gradient @ basis).norm() / gradient.norm()) for basis in bases]
        expected = sorted((-share, task) for task, share in enumerate(shares) if share >= 0.5)
        found = [(-one.share, one.task) for one in guard.related(named_params(layer)).get("weight", [])]
        assert [task for _, task in found] == [task for _, task in expected]
        assert [share for share, _ in found] == pytest.approx([share for share, _ in expected])
    layer.weight.grad = seeded(double, 3, 2) @ planes[1]
    assert guard.related(named_params(layer))["weight"][0].task == 1
    assert TrustRegionProjection(trust=1.0).related(named_params(layer)) == {}


def test_at_most_so_many_tasks_are_trusted():
    layer = seeded(nn.Linear, 6, 3, bias=False).double()
    guard, planes = two_tasks(layer)
    layer.weight.grad = seeded(double, 3, 2) @ (planes[0] + planes[1])
    guard.trust = 0.0
    assert len(guard.related(named_params(layer))["weight"]) == 2
    guard.most = 1
    best = guard.related(named_params(layer))["weight"]
    assert len(best) == 1


@pytest.mark.parametrize("bias", [False, True])
def test_scaled_inputs_are_scaled_weights(bias):
    """W + sum_j W S_j (Q_j - I) S_j', written out, against the layer with its inputs changed."""
    layer = seeded(nn.Linear, 6, 3, bias=bias).double()
    guard, planes = two_tasks(layer)
    guard.trust = 0.0
    layer.weight.grad = seeded(double, 3, 6)
    if bias:
        layer.bias.grad = seeded(double, 3)
    scales, x = guard.scales(named_params(layer)), seeded(double, 5, 6, seed=9)
    plain = layer(x).detach()
    with scales.applied(layer):
        assert torch.equal(layer(x), plain), "at first they change nothing"
    with torch.no_grad():
        for number, scale in enumerate(scales.scales.values()):
            scale += seeded(double, *scale.shape, seed=number)
    weight = layer.weight.detach().clone()
    order = [one.task for one in guard.related(named_params(layer))["weight+bias" if bias else "weight"]]
    assert sorted(order) == [0, 1]
    for number, scale in enumerate(scales.scales.values()):
        core = getattr(scales, f"q0_core{number}")
        projector = planes[order[number]].T @ torch.linalg.pinv(planes[order[number]].T)
        torch.testing.assert_close(core @ core.T, projector, rtol=0, atol=1e-8)
        weight += layer.weight.detach() @ core @ (scale.detach() - torch.eye(len(scale))) @ core.T
    with scales.applied(layer):
        found = layer(x)
    torch.testing.assert_close(found, nn.functional.linear(x, weight, layer.bias), rtol=0, atol=1e-10)
    assert torch.equal(layer(x).detach(), plain), "outside of the block the network is as it was"


def test_a_related_task_is_learned_in_closed_directions_and_the_first_stays():
    """The new task sees the same inputs and wants twice the outputs: projection alone cannot move at all."""
    layer, x = seeded(nn.Linear, 4, 2, bias=False).double(), seeded(double, 30, 4)
    guard, wanted = TrustRegionProjection(1.0), 2.0 * layer(x).detach()
    with guard.watch(layer):
        layer(x).sum().backward()
    guard.remember(named_params(layer))
    before = layer(x).detach()
    (layer(x) - wanted).square().mean().backward()
    scales = guard.scales(named_params(layer))
    optimizer = torch.optim.Adam([*layer.parameters(), *scales.parameters()], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        with scales.applied(layer):
            loss = (layer(x) - wanted).square().mean()
            loss.backward()
        with guard.step(named_params(layer), 0.05):
            optimizer.step()
    assert float(loss.detach()) < 1e-3 * float((before - wanted).square().mean())
    torch.testing.assert_close(layer(x).detach(), before, rtol=0, atol=1e-8)


def test_what_meets_the_weight_through_scales_is_what_is_kept():
    """Inputs that a task reads through its scales are in the core, so that a later task leaves them alone."""
    layer, x = seeded(nn.Linear, 6, 2, bias=False).double(), seeded(double, 20, 1) @ seeded(double, 1, 6, seed=1)
    guard, _ = two_tasks(layer)
    guard.trust = 0.0
    layer.weight.grad = seeded(double, 2, 6)
    scales = guard.scales(named_params(layer))
    with torch.no_grad():
        for scale in scales.scales.values():
            scale += seeded(double, *scale.shape)
    with scales.applied(layer), guard.watch(layer):
        before = layer(x).detach()
    guard.remember(named_params(layer))
    layer.weight.grad = seeded(double, 2, 6, seed=5)
    with guard.step(named_params(layer), 1.0):
        torch.optim.SGD(layer.parameters(), lr=1.0).step()
    with scales.applied(layer):
        torch.testing.assert_close(layer(x).detach(), before, rtol=0, atol=1e-8)


def test_a_trust_region_goes_on_from_its_state():
    layer = seeded(nn.Linear, 6, 3).double()
    guard, _ = two_tasks(layer)
    other = TrustRegionProjection(1.0, trust=0.0)
    other.load_state_dict(guard.state_dict())
    guard.trust = 0.0
    for param in layer.parameters():
        param.grad = torch.ones_like(param)
    ours, theirs = (one.related(named_params(layer))["weight+bias"] for one in (guard, other))
    assert [(one.task, one.share) for one in ours] == [(one.task, one.share) for one in theirs]
    with pytest.raises(ConfigError, match="trust must lie in"):
        TrustRegionProjection(trust=2.0)


# Novelty.


def test_the_set_is_one_exchange_from_any_better_one_and_never_gets_worse():
    """Greedy: against all exchanges with the nearest, by the novelty that the docstring says."""
    draw = random.Random(0)
    constraints: list = []
    for _ in range(200):
        model = tuple(draw.randrange(3) for _ in range(5))
        before, constraints = constraints, with_model(constraints, model, size=4, num_neighbours=2)
        if model in before or len(before) < 4:
            assert set(constraints) == {*before, model}
            continue
        nearest = min(before, key=lambda one: sum(a != b for a, b in zip(one, model, strict=True)))
        rest = [one for one in before if one != nearest]

        def mean_of_two(one, rest=rest):
            return sum(sorted(sum(a != b for a, b in zip(one, o, strict=True)) for o in rest)[:2]) / 2

        better = mean_of_two(model) > mean_of_two(nearest)
        assert set(constraints) == {*rest, model if better else nearest}
    pairs = list(itertools.combinations(constraints, 2))
    assert sum(distance(*pair) for pair in pairs) / len(pairs) > 5 * 2 / 3, "farther apart than drawn models are"
    assert novelty((0, 0), [], 3) == 0.0


def test_the_loss_is_the_current_models_and_the_mean_of_the_constraints():
    guard, asked = NoveltyConstraints(0.25, size=2), []

    def loss_of(model):
        asked.append(tuple(model))
        return torch.tensor(float(sum(model)))

    assert float(guard.loss((1, 1), loss_of)) == 2.0
    guard.remember({})
    for model in ((2, 2), (3, 3)):
        guard.loss(model, loss_of)
        guard.remember({})
    assert guard.constraints == [(1, 1), (2, 2)] or len(guard.constraints) == 2
    guard.constraints = [(1, 1), (4, 4)]
    asked.clear()
    assert float(guard.loss((5, 5), loss_of)) == pytest.approx(0.75 * 10 + 0.25 * (2 + 8) / 2)
    assert asked == [(5, 5), (1, 1), (4, 4)]
    assert float(guard.loss((1, 1), loss_of)) == pytest.approx(0.75 * 2 + 0.25 * 8), "a model is not its own constraint"
    assert float(chain(NoGuard(), guard).loss((5, 5), loss_of)) == pytest.approx(0.75 * 10 + 0.25 * 5)


def test_a_model_that_came_to_nothing_is_no_constraint():
    guard = NoveltyConstraints()
    guard.loss((1, 2), lambda model: torch.zeros(()))
    guard.discard()
    guard.remember({})
    assert guard.constraints == []


def test_a_search_trains_the_constraints_beside_a_child():
    data = load("digits", train_size=40, eval_size=16)
    space = Cells64(channels=2, num_cells=1)
    setup = SupernetSetup(space, data, Settings(epochs=1, batch_size=8, learning_rate=0.05))
    plan = SearchPlan(
        epochs=2,
        warmup_epochs=0,
        guard_warmup_epochs=1,
        models_per_epoch=3,
        batches_per_model=1,
        strategy="random",
        strategy_steps=1,
        guard="nsas:size=2",
        measured_models=0,
    )
    loop = Search(setup, plan)
    forward, trained = loop.network.forward, []

    def noted(x, arch):
        if loop.network.training:
            trained.append(space.name(arch))
        return forward(x, arch)

    loop.network.forward = noted
    records: dict = {}
    loop._record = lambda key, **fields: records.__setitem__(key, fields)
    loop.run()
    warm, kept = records["epoch/0"]["archs"], records["epoch/1"]["archs"]
    assert len(set(kept)) == 3
    assert trained[:3] == warm
    assert trained[3:] == [kept[0], kept[1], kept[0], kept[2], kept[0], kept[1]]
    assert records["epoch/1"]["guard"]["constraints"] == 2.0
    again = NoveltyConstraints()
    again.load_state_dict(loop.guard.state_dict())
    assert again.constraints == loop.guard.constraints and make_guard("nsas:0.3").weight == 0.3


# Adapters.


class Adapted(nn.Module):
    """A frozen linear layer with an adapter for each task."""

    def __init__(self, names=("first", "second")):
        super().__init__()
        self.base = nn.Linear(8, 5, bias=False).requires_grad_(False)
        self.lora_A = nn.ModuleDict({name: nn.Linear(8, 2, bias=False) for name in names})
        self.lora_B = nn.ModuleDict({name: nn.Linear(2, 5, bias=False) for name in names})
        for up in self.lora_B.values():
            nn.init.zeros_(up.weight)

    def forward(self, x, names):
        return self.base(x) + sum(self.lora_B[name](self.lora_A[name](x)) for name in names)


def test_rows_apart_from_earlier_rows():
    down, earlier = seeded(double, 2, 8), [seeded(double, 2, 8, seed=1), seeded(double, 3, 8, seed=2)]
    found, rows = apart_from(down, earlier), torch.cat(earlier)
    expected = down - (torch.linalg.lstsq(rows.T, down.T).solution.T @ rows)  # least squares: what rows cannot explain
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(apart_from(down, earlier, 0.25), 0.75 * down + 0.25 * expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(apart_from(down, [*earlier, earlier[0]]), expected, rtol=0, atol=1e-10)
    broken = torch.full((1, 8), float("nan"))
    torch.testing.assert_close(apart_from(down, [*earlier, broken]), expected, rtol=0, atol=1e-10)
    assert torch.equal(apart_from(down, [broken]), down)


def test_the_second_adapter_reads_other_directions_than_the_first():
    network = seeded(Adapted).double()
    guard = OrthogonalAdapters()
    for task, name in enumerate(("first", "second")):
        params = {n: p for n, p in named_params(network).items() if name in n}
        optimizer = torch.optim.AdamW(params.values(), lr=0.05)
        for step in range(10):
            optimizer.zero_grad()
            x = seeded(double, 20, 8, seed=step + 100 * task)
            network(x, ("first", "second")[: task + 1]).square().mean().backward()
            for other, param in named_params(network).items():
                if name not in other:
                    param.grad = None
            with guard.step(named_params(network), 0.05):
                optimizer.step()
        guard.remember(named_params(network))
    first, second = (network.lora_A[name].weight.detach() for name in ("first", "second"))
    assert (first @ second.T).abs().max() < 1e-10 < second.norm()
    again = OrthogonalAdapters()
    again.load_state_dict(guard.state_dict())
    assert again.report() == guard.report() == {"finished_adapters": 2.0}


def test_an_adapter_that_is_trained_on_is_not_kept_apart_from_itself():
    network, guard = seeded(Adapted, ("only",)).double(), OrthogonalAdapters()
    params = named_params(network)
    for param in params.values():
        param.grad = torch.zeros_like(param)
    guard.remember(params)
    before = network.lora_A["only"].weight.detach().clone()
    with guard.step(params, 0.1):
        torch.optim.SGD(params.values(), lr=0.1).step()
    assert torch.equal(network.lora_A["only"].weight, before)


def test_unread_rows_are_the_strongest_outside_of_the_core():
    x, core = seeded(double, 8, 40) * torch.logspace(0, -1, 8).unsqueeze(1), torch.linalg.qr(seeded(double, 8, 3))[0]
    found = unread_rows(x @ x.T, core, 2).double()
    left = x - core @ core.T @ x
    u = torch.linalg.svd(left)[0][:, :2]
    torch.testing.assert_close(found.T @ found, u @ u.T, rtol=0, atol=1e-5)  # rows come in float32
    assert (found @ core).abs().max() < 1e-6
    everything = torch.eye(8, dtype=torch.float64)
    assert torch.equal(unread_rows(x @ x.T, everything, 2), torch.zeros(2, 8)), "nothing is left to read"


def test_an_interference_free_adapter_leaves_the_first_task_alone():
    """Two tasks in two planes; the second's adapter is designed, trained and merged: the first task's outputs stay."""
    network = seeded(Adapted, ("only",)).double()
    down, up = network.lora_A["only"].weight, network.lora_B["only"].weight
    guard, params = OrthogonalProjection.gpm(1.0, protect=("*lora_A*",)), named_params(network)
    tasks = [seeded(double, 30, 2, seed=n) @ seeded(double, 2, 8, seed=10 + n) for n in range(2)]
    kept = None
    for x in tasks:
        with guard.watch(network):
            network(x, ("only",)).sum().backward()
        assert design_adapters(guard, params) == ["lora_A.only.weight"]
        torch.testing.assert_close(down @ down.T, torch.eye(2).double(), rtol=0, atol=1e-5)
        optimizer = torch.optim.SGD([up], lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            (network(x, ("only",)) - 1.0).square().mean().backward()
            optimizer.step()
        assert up.norm() > 0.1
        with torch.no_grad():
            network.base.weight += up @ down
            up.zero_()
        with guard.watch(network):
            network(x, ("only",)).sum().backward()
        guard.remember(params)
        if kept is None:
            kept = network(tasks[0], ("only",)).detach()
    moved = (network(tasks[0], ("only",)).detach() - kept).abs().max()
    assert moved < 1e-4 * kept.abs().max(), "the core is kept in float32"


def test_what_adapters_refuse():
    with pytest.raises(ConfigError, match="share must be above 0 and at most 1, but got 0"):
        OrthogonalAdapters(0.0)
    with pytest.raises(ConfigError, match="a threshold of energy, but it has none"):
        design_adapters(OrthogonalProjection(), {})
    with pytest.raises(ConfigError, match="must be watched first"):
        design_adapters(OrthogonalProjection.gpm(), {})
