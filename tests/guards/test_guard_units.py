"""Strengths with a unit: what they hold does not depend on the size of gradients, inputs and steps."""

from __future__ import annotations

import pytest
import torch
from exact_projection import exact
from guarded_layer import double, guarded_update, seeded
from torch import nn

from ramet.errors import ConfigError
from ramet.guards import ElasticConsolidation, KroneckerPlasticity, OrthogonalProjection, WeightPlasticity, make_guard
from ramet.params import named_params

FISHER = {"a": torch.tensor([1.0, 3.0]).double(), "b": torch.tensor([2.0]).double()}  # the mean is 2


def pulled(guard, fisher, size=0.1):
    """Where weights are that were 1 away from their anchor, after a step without a gradient."""
    params = {name: nn.Parameter(torch.zeros_like(values)) for name, values in fisher.items()}
    guard.remember(params, fisher)
    for param in params.values():
        param.data.fill_(1.0)
        param.grad = torch.zeros_like(param)
    with guard.step(params, size):
        torch.optim.SGD(params.values(), lr=size).step()
    return torch.cat([param.detach() for param in params.values()])


@pytest.mark.parametrize("form", ["implicit", "explicit"])
@pytest.mark.parametrize("make", [WeightPlasticity, ElasticConsolidation])
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e4])
def test_by_its_trace_the_size_of_the_fisher_information_does_not_count(make, form, factor):
    scaled = {name: factor * values for name, values in FISHER.items()}
    found = pulled(make(3.0, form=form, unit="trace"), scaled)
    torch.testing.assert_close(found, pulled(make(1.5, form=form), FISHER))  # 3 / the mean of 2


def test_the_mean_is_that_of_all_models_so_far():
    guard = WeightPlasticity(3.0, unit="trace")
    pulled(guard, FISHER)
    found = pulled(guard, {"a": torch.tensor([5.0, 1.0]).double()})  # in sum 6, 4 and 2: a mean of 4
    anchor = torch.tensor([0.0, 0.0]).double()
    expected = anchor + 1.0 / (1.0 + 0.1 * 3.0 / 4.0 * torch.tensor([6.0, 4.0]).double())
    torch.testing.assert_close(found, expected)
    restored = WeightPlasticity(3.0, unit="trace")
    restored.load_state_dict(guard.state_dict())
    assert restored._scale() == pytest.approx(4.0)
    guard.forget()
    torch.testing.assert_close(pulled(guard, FISHER), pulled(WeightPlasticity(1.5), FISHER))


@pytest.mark.parametrize("size", [1e-4, 0.1])
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e4])
@pytest.mark.parametrize("make", [WeightPlasticity, lambda *a, **k: ElasticConsolidation(*a, form="implicit", **k)])
def test_a_share_to_hold_depends_on_nothing_else(make, factor, size):
    found = pulled(make(0.2, unit="hold"), {name: factor * values for name, values in FISHER.items()}, size)
    assert float(found[2]) == pytest.approx(0.8), "a weight of mean importance loses a fifth"
    expected = 1.0 / (1.0 + 0.25 * torch.tensor([0.5, 1.5, 1.0]).double())
    torch.testing.assert_close(found, expected)


def test_a_held_weight_rests_so_many_plain_steps_away():
    weight = nn.Parameter(torch.zeros(1).double())
    guard, optimizer = WeightPlasticity(0.2, unit="hold"), torch.optim.SGD([weight], lr=0.03)
    guard.remember({"w": weight}, {"w": torch.ones(1).double()})
    for _ in range(300):
        weight.grad = torch.ones(1).double()
        with guard.step({"w": weight}, 0.03):
            optimizer.step()
    assert float(weight.detach()) == pytest.approx(-0.03 * 0.8 / 0.2)


@pytest.mark.parametrize("unit", ["trace", "hold"])
def test_whole_layers_by_the_trace_of_omega(unit):
    x, g, start = seeded(double, 5, 3), seeded(double, 5, 2, seed=1), seeded(double, 2, 3, seed=2)
    ends = []
    for factor in (1.0, 1e3):
        layer, guard = seeded(nn.Linear, 3, 2, bias=False).double(), KroneckerPlasticity(0.3, unit=unit)
        with guard.watch(layer):
            ((layer(x) * factor * g).sum() / 5).backward()
        guard.remember(named_params(layer))
        anchor = layer.weight.detach().clone()
        layer.weight.data += start
        layer.weight.grad = torch.zeros_like(layer.weight)
        with guard.step(named_params(layer), 0.1):
            pass
        ends.append(layer.weight.detach() - anchor)
    torch.testing.assert_close(*ends)
    omega = torch.kron(g.mT @ g / 5, x.mT @ x / 5)
    strength = 0.1 * 0.3 if unit == "trace" else 0.3 / 0.7
    system = torch.eye(6).double() + strength * omega / omega.diagonal().mean()
    torch.testing.assert_close(ends[0].reshape(-1), torch.linalg.solve(system, start.reshape(-1)))


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (WeightPlasticity, {"strength": 1.0, "unit": "hold"}, "a share to hold must be below 1"),
        (ElasticConsolidation, {"strength": 0.5, "unit": "hold"}, "the form implicit, but got 0.5 and 'explicit'"),
        (KroneckerPlasticity, {"unit": "energy"}, "unit must be one of fisher, trace, hold, but got 'energy'"),
        (OrthogonalProjection, {"unit": "trace"}, "unit must be one of input, energy, hold, but got 'trace'"),
        (OrthogonalProjection, {"regularisation": 0.0, "unit": "hold"}, "above 0 and at most 1, but got 0.0"),
        (OrthogonalProjection, {"regularisation": 1.5, "unit": "hold"}, "above 0 and at most 1, but got 1.5"),
    ],
)
def test_bad_units_are_refused(make, arguments, words):
    with pytest.raises(ConfigError, match=words):
        make(**arguments)


def closed(guard, *models, width=4, kind="matrix"):
    """What a guard lets through of an update, after some models with their inputs, as rows."""
    layer = seeded(nn.Linear, width, width, bias=False).double()
    for x in models:
        with guard.watch(layer):
            layer(x)
        guard.remember(named_params(layer))
    raw, moved = guarded_update(guard, layer)
    return torch.linalg.solve(raw["weight"], moved["weight"])


@pytest.mark.parametrize("options", [{}, {"rank": 3}, {"inputs": "mean"}])
@pytest.mark.parametrize("factor", [1e-3, 1.0, 300.0])
def test_by_their_energy_the_size_of_inputs_does_not_count(factor, options):
    x = seeded(double, 3, 4)
    found = closed(OrthogonalProjection(0.7, unit="energy", **options), factor * x)
    seen = x.mean(0, keepdim=True) if "inputs" in options else x
    torch.testing.assert_close(found, exact(seen.mT, 0.7 * float(seen.square().sum()) / 4))


def test_nor_does_their_number():
    x = seeded(double, 3, 4)
    once, often = (closed(OrthogonalProjection(0.7, unit="energy"), inputs) for inputs in (x, x.repeat(50, 1)))
    torch.testing.assert_close(once, often)
    torch.testing.assert_close(once, closed(OrthogonalProjection(1 / 1.7, unit="hold"), x))  # (1 - x) / x is 0.7


def test_every_finished_model_counts_alike():
    small, large = seeded(double, 3, 4), 100 * seeded(double, 9, 4, seed=1)
    grams = [x.mT @ x for x in (small, large)]
    total = sum(gram / gram.diagonal().mean() for gram in grams)
    found = closed(OrthogonalProjection(0.7, unit="energy"), small, large)
    torch.testing.assert_close(found, torch.linalg.inv(torch.eye(4).double() + total / 0.7))


@pytest.mark.parametrize(("share", "left"), [(0.75, 0.25), (1.0, 0.0), (0.01, 0.99)])
def test_a_direction_of_mean_energy_is_closed_by_the_share_to_hold(share, left):
    found = closed(OrthogonalProjection(share, unit="hold"), 5 * torch.eye(4).double())
    torch.testing.assert_close(found, left * torch.eye(4).double(), rtol=0, atol=1e-7)


def test_rows_and_entries_have_a_mean_energy_too():
    table, guard = nn.Embedding(4, 2).double(), make_guard("projection:0.5:unit=hold")
    with guard.watch(table):
        table(torch.tensor([0, 0, 0, 1, 1, 2]))  # counts 3, 2, 1 and 0, their mean is 1.5
    guard.remember(named_params(table))
    raw, moved = guarded_update(guard, table)
    torch.testing.assert_close((moved["weight"] / raw["weight"])[:, 0], torch.tensor([1 / 3, 3 / 7, 0.6, 1.0]).double())
    norm, x = nn.LayerNorm(3, bias=False).double(), seeded(double, 5, 3)
    guard = OrthogonalProjection(1.0, unit="energy")
    with guard.watch(norm):
        norm(x)
    guard.remember(named_params(norm))
    raw, moved = guarded_update(guard, norm)
    energy = nn.functional.layer_norm(x, (3,)).square().sum(0)
    torch.testing.assert_close(moved["weight"] / raw["weight"], 1 / (1 + energy / energy.mean()))


def test_units_are_options_of_the_spec_language():
    assert make_guard("plasticity:0.01:unit=hold").unit == "hold"
    assert make_guard("elastic:3:unit=trace").unit == "trace"
    assert make_guard("kronecker:3:unit=trace").unit == "trace"
    assert make_guard("projection:1:unit=energy,freeze_uncovered=true").unit == "energy"
