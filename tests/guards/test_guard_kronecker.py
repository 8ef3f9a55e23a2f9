"""The Kronecker-factored interaction term against the dense Fisher information, where the form is exact."""

from __future__ import annotations

import gc
import itertools
import math
import weakref

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.guards import (
    KroneckerPlasticity,
    OrthogonalProjection,
    WeightPlasticity,
    diagonal_fisher,
    kronecker_memory,
)
from ramet.guards.coverage import UncoveredWarning
from ramet.guards.factors import Factors, output_columns
from ramet.guards.interaction import eigenbasis, interaction_gradient, proximal_interaction
from ramet.guards.layers import Product
from ramet.guards.listening import SeenProduct
from ramet.params import named_params


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def remembered(layer, x, output_gradients, **options):
    """A guard after one backward pass in which each sample's own output gradient is the given one."""
    guard = KroneckerPlasticity(**options)
    layer.zero_grad()
    with guard.watch(layer):
        ((layer(x) * output_gradients).sum() / len(x)).backward()
    guard.remember(named_params(layer))
    return guard


def dense_fisher(layer, x, output_gradients):
    """The mean over samples of the outer products of their whole gradients, weights first and then biases."""
    total = 0
    for sample, gradient in zip(x, output_gradients, strict=True):
        layer.zero_grad()
        (layer(sample[None]) * gradient).sum().backward()
        flat = torch.cat([param.grad.reshape(-1) for param in layer.parameters()])
        total = total + flat[:, None] * flat[None, :] / len(x)
    return total


def moved(layer, seed):
    changes = {name: draw(seed, *param.shape) for name, param in layer.named_parameters()}
    return changes, {name: param.detach() + changes[name] for name, param in layer.named_parameters()}


def every_pair(inputs, gradients):
    """Each input with each output gradient: they are independent, and A (x) G is the Fisher information exactly."""
    pairs = list(itertools.product(inputs, gradients))
    return torch.stack([a for a, _ in pairs]), torch.stack([g for _, g in pairs])


@pytest.mark.parametrize("bias", [True, False])
def test_linear_equals_the_dense_fisher(bias):
    layer = nn.Linear(3, 2, bias=bias).double()
    x, gradients = every_pair(draw(0, 4, 3), draw(1, 5, 2))
    guard = remembered(layer, x, gradients)
    changes, params = moved(layer, 7)
    v = torch.cat([change.reshape(-1) for change in changes.values()])
    torch.testing.assert_close(guard.penalty(params), v @ dense_fisher(layer, x, gradients) @ v)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_with_one_position_equals_the_dense_fisher(groups):
    layer = nn.Conv2d(4, 2, 3, groups=groups, bias=False).double()
    x, gradients = every_pair(draw(0, 3, 4, 3, 3), draw(1, 4, 2, 1, 1))
    guard = remembered(layer, x, gradients)
    changes, params = moved(layer, 7)
    fisher = dense_fisher(layer, x, gradients)
    if groups == 2:  # groups are taken as independent: the block between them is left out
        fisher[:18, 18:] = 0
        fisher[18:, :18] = 0
    v = changes["weight"].reshape(-1)
    torch.testing.assert_close(guard.penalty(params), v @ fisher @ v)


def test_convolution_sums_inputs_over_positions_and_averages_gradients():
    """One sample whose patches are all alike and whose gradients are all alike: T positions give T^2 a a' (x) g g'."""
    layer = nn.Conv1d(1, 2, 2, bias=False).double()
    x, gradient = torch.full((1, 1, 5), 2.0).double(), torch.tensor([[[1.0], [3.0]]]).double().expand(1, 2, 4)
    guard = remembered(layer, x, gradient)
    # Gradient of the weights: 4 positions * g a'. Squared norm in the direction v: (4 * sum(g v a))^2, while the
    # factored form has A = 4 a a' and G = g g', that is 4 (sum g v a)^2: it takes positions as independent.
    params = {"weight": layer.weight.detach() + 1.0}
    torch.testing.assert_close(guard.penalty(params), torch.tensor(4 * (4.0 * 4.0) ** 2).double())


@pytest.mark.parametrize("strength", [1.0, 8.0])
def test_explicit_gradient_is_autograds(strength):
    layer = nn.Linear(3, 2).double()
    guard = remembered(layer, draw(0, 6, 3), draw(1, 6, 2), strength=strength, form="explicit")
    with torch.no_grad():
        for seed, param in enumerate(layer.parameters()):
            param += draw(seed, *param.shape)
    layer.zero_grad()
    (strength / 2 * guard.penalty(named_params(layer))).backward()
    expected = {name: param.grad.clone() for name, param in layer.named_parameters()}
    for param in layer.parameters():
        param.grad = torch.zeros_like(param)
    before = {name: param.detach().clone() for name, param in layer.named_parameters()}
    with guard.step(named_params(layer), 1.0):
        found = {name: param.grad.clone() for name, param in layer.named_parameters()}
    for name, param in layer.named_parameters():
        torch.testing.assert_close(found[name], expected[name])
        assert torch.equal(param, before[name]), "nothing but the gradient acts"


def test_proximal_step_solves_its_equation_at_any_strength():
    inputs, outputs, start = draw(0, 2, 4, 6), draw(1, 2, 3, 5), draw(2, 2, 3, 4)  # two groups
    inputs, outputs = inputs @ inputs.mT, outputs @ outputs.mT
    for strength in (0.0, 1e-3, 1.0, 1e6):
        v = proximal_interaction(start, eigenbasis(inputs, outputs), strength)
        torch.testing.assert_close(v + strength * interaction_gradient(v, inputs, outputs), start)


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_implicit_step_by_hand(strength):
    """One weight: A = 4, G = 9, and step size 0.1 pull a change of 1.5 back to 1.5 / (1 + 3.6 alpha)."""
    layer = nn.Linear(1, 1, bias=False).double()
    guard = remembered(layer, torch.tensor([[2.0]]).double(), torch.tensor([[3.0]]).double(), strength=strength)
    anchor = layer.weight.detach().clone()
    layer.weight.data += 0.5  # the step goes on from there, by the loss alone
    layer.weight.grad = torch.full_like(layer.weight, -1.0)
    with guard.step(named_params(layer), 0.1):
        torch.optim.SGD(layer.parameters(), lr=1.0).step()
    torch.testing.assert_close(layer.weight.detach() - anchor, torch.tensor([[1.5 / (1 + 3.6 * strength)]]).double())


def test_several_models_are_their_mean_times_their_number():
    layer = nn.Linear(3, 2, bias=False).double()
    guard = KroneckerPlasticity()
    factors = []
    for seed in (0, 10):
        x, g = draw(seed, 4, 3), draw(seed + 1, 4, 2)
        layer.zero_grad()
        with guard.watch(layer):
            ((layer(x) * g).sum() / 4).backward()
        guard.remember(named_params(layer))
        factors.append((x.mT @ x / 4, g.mT @ g / 4))
    a, g = (sum(parts) / 2 for parts in zip(*factors, strict=True))
    v = draw(5, 2, 3)
    expected = 2 * torch.trace(v.mT @ g @ v @ a)
    torch.testing.assert_close(guard.penalty({"weight": layer.weight.detach() + v}), expected)


def test_it_knows_free_directions_that_the_diagonal_does_not():
    """Inputs whose two features are always equal: moving weights in opposite ways is free; only this guard sees it."""
    layer = nn.Linear(2, 2, bias=False).double()
    x = draw(0, 20, 1).expand(20, 2)
    y = torch.randint(2, (20,), generator=torch.Generator().manual_seed(1))
    ends = {}
    for name, guard in {"kronecker": KroneckerPlasticity(1e4), "diagonal": WeightPlasticity(1e4)}.items():
        trained = nn.Linear(2, 2, bias=False).double()
        trained.load_state_dict(layer.state_dict())
        params = named_params(trained)
        with guard.watch(trained):
            cross_entropy(trained(x), y).backward()
        guard.remember(params, diagonal_fisher(trained.eval(), cross_entropy, x, y))
        before = trained(x).detach()
        trained.weight.grad = torch.tensor([[1.0, -1.0], [0.0, 0.0]]).double()
        with guard.step(params, 1.0):
            torch.optim.SGD(params.values(), lr=1.0).step()
        ends[name] = float((trained.weight - layer.weight).norm().detach())
        assert (trained(x).detach() - before).norm() < 1e-2
    assert ends["kronecker"] > 1.4 > 0.1 > ends["diagonal"]


def test_wide_layers_and_bad_values_are_refused():
    too_wide = pytest.raises(ConfigError, match=r"max_width=4 wide, but weight.bias is 6 wide")
    with too_wide, KroneckerPlasticity(max_width=4).watch(nn.Linear(5, 2)):
        pass
    with pytest.raises(ConfigError, match="but got"):
        KroneckerPlasticity(-1.0)
    with pytest.raises(ConfigError, match="but got"):
        KroneckerPlasticity(max_width=0)
    with KroneckerPlasticity(max_width=6).watch(nn.Linear(5, 2)):  # five inputs and the bias
        pass
    with KroneckerPlasticity(max_width=2).watch(nn.Conv1d(4, 4, 1, groups=4)):  # a group has a pixel, a bias, an output
        pass
    assert KroneckerPlasticity(max_width=1).max_width == 1
    assert (KroneckerPlasticity().strength, KroneckerPlasticity().max_width) == (60.0, 4096)


def test_a_forward_pass_without_gradients_teaches_nothing():
    layer, guard = nn.Linear(3, 2), KroneckerPlasticity()
    with guard.watch(layer), torch.no_grad():
        layer(torch.randn(2, 3))
    with guard.watch(layer):
        layer(torch.randn(2, 3))
    guard.remember(named_params(layer))
    assert guard.report()["guarded_values"] == 0
    for param in layer.parameters():  # gradients of something else
        param.grad = torch.ones_like(param)
    with guard.watch(layer):
        layer(torch.randn(2, 3))
    with pytest.warns(UncoveredWarning, match="does not cover 100.0%"):
        guard.remember(named_params(layer))
    assert guard.report()["guarded_values"] == 0


def test_ranks_that_take_the_same_samples_count_them_once():
    columns, gradients = draw(0, 1, 3, 5), draw(1, 1, 2, 5)
    once, ranks = Factors("weight"), [Factors("weight"), Factors("weight")]
    for factors, options in ((once, {}), *((each, {"num_repeats": 2}) for each in ranks)):
        factors.add_inputs(columns, **options)
        factors.add_gradients(gradients, 5, **options)
    for part in Factors.PARTS:
        torch.testing.assert_close(ranks[0].sums[part] + ranks[1].sums[part], once.sums[part])


def test_factors_of_several_passes_are_added_up():
    columns, gradients = draw(0, 1, 3, 6), draw(1, 1, 2, 6)
    once, twice = Factors("weight"), Factors("weight")
    for factors, parts in ((once, [slice(0, 6)]), (twice, [slice(0, 2), slice(2, 6)])):
        for part in parts:
            factors.add_inputs(columns[..., part])
            factors.add_gradients(gradients[..., part], part.stop - part.start)
    for found, expected in zip(twice.moments(None), once.moments(None), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_a_single_sample_needs_no_batch(kind):
    layer = (nn.Linear(3, 2) if kind == "linear" else nn.Conv1d(3, 2, 2)).double()
    x, gradient = (draw(0, 3), draw(1, 2)) if kind == "linear" else (draw(0, 3, 5), draw(1, 2, 4))
    guards = []
    for sample, given in ((x, gradient), (x[None], gradient[None])):
        guard = KroneckerPlasticity()
        layer.zero_grad()
        with guard.watch(layer):
            (layer(sample) * given).sum().backward()
        guard.remember(named_params(layer))
        guards.append(guard.state_dict())
    assert guards[0].keys() == guards[1].keys()
    for name, tensor in guards[0].items():
        torch.testing.assert_close(tensor, guards[1][name])


def test_the_penalty_is_the_sum_over_layers():
    layers = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)).double()
    guard = KroneckerPlasticity()
    assert float(guard.penalty(named_params(layers))) == 0.0, "nothing is remembered"
    with guard.watch(layers):
        layers(draw(0, 4, 3)).square().mean().backward()
    guard.remember(named_params(layers))
    moved_params = {name: param.detach() + 1.0 for name, param in layers.named_parameters()}
    parts = [{n: p for n, p in moved_params.items() if n.startswith(f"{place}.")} for place in (0, 1)]
    assert all(float(guard.penalty(part)) > 0 for part in parts)
    torch.testing.assert_close(guard.penalty(moved_params), guard.penalty(parts[0]) + guard.penalty(parts[1]))


@pytest.mark.parametrize(("form", "expected"), [("implicit", 1.5 / 4.6), ("explicit", 1.5 - 0.1 * 0.5 * 2 * 36 * 0.5)])
def test_each_model_pulls_once_more(form, expected):
    """Two models with A = 4 and G = 9, alpha 0.5, step size 0.1: from 0.5 away a step of 1, and the pull."""
    layer = nn.Linear(1, 1, bias=False).double()
    guard = KroneckerPlasticity(0.5, form=form)
    for _ in range(2):
        layer.zero_grad()
        with guard.watch(layer):
            (layer(torch.tensor([[2.0]]).double()) * 3.0).sum().backward()
        guard.remember(named_params(layer))
    anchor = layer.weight.detach().clone()
    layer.weight.data += 0.5
    layer.weight.grad = torch.full_like(layer.weight, -10.0)
    with guard.step(named_params(layer), 0.1):
        torch.optim.SGD(layer.parameters(), lr=0.1).step()
    torch.testing.assert_close(layer.weight.detach() - anchor, torch.tensor([[expected]]).double())


def test_gradients_of_a_sequence_are_columns_of_all_its_places():
    gradient = draw(0, 2, 3, 4)  # batch, places, outputs
    seen = SeenProduct(Product("weight", "weight", "weight", None, groups=1, width=5), draw(1, 1, 5, 6))
    columns, num_samples = output_columns(gradient, seen)
    assert num_samples == 2 and torch.equal(columns[0], 2 * gradient.reshape(6, 4).mT)


def test_attention_has_the_factors_of_the_same_attention_in_linear_layers():
    """torch's attention takes the samples second, and flat together with time: they must be counted all the same."""

    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.project, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (2, 3)).transpose(1, 2) for t in self.project(x).chunk(3, dim=-1))
            return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    fused, written, x = nn.MultiheadAttention(6, 2, batch_first=True).double(), Written().double(), draw(0, 4, 3, 6)
    names = {"in_proj_weight+bias": "project.weight+bias", "out_proj.weight+bias": "out.weight+bias"}
    written.load_state_dict(
        {
            "project.weight": fused.in_proj_weight,
            "project.bias": fused.in_proj_bias,
            "out.weight": fused.out_proj.weight,
            "out.bias": fused.out_proj.bias,
        }
    )
    states = []
    for module, run in (
        (written, lambda: written(x)),
        (fused, lambda: fused(x, x, x, need_weights=False)[0]),
        (fused, lambda: fused(x, x, x)[0]),
    ):
        guard = KroneckerPlasticity()
        module.zero_grad()
        with guard.watch(module), OrthogonalProjection().watch(module):  # another that takes attention apart first
            run().square().sum(-1).mean(0).sum().backward()
        guard.remember(named_params(module))
        states.append(guard.state_dict())
    for one, other in names.items():
        for part in ("inputs", "outputs", "anchor"):
            for state in states[1:]:
                torch.testing.assert_close(state[f"{part}/{one}"], states[0][f"{part}/{other}"])


def test_a_matrix_that_is_stored_the_other_way_round():
    """x @ W has the penalty and the proximal step of a linear layer with the transpose of W."""
    layer = nn.Linear(3, 2, bias=False).double()
    turned, x, g = nn.ParameterDict({"w": nn.Parameter(layer.weight.detach().mT.clone())}), draw(0, 4, 3), draw(1, 4, 2)
    ends = []
    for module, run in ((layer, lambda: layer(x)), (turned, lambda: x @ turned["w"])):
        guard, params = KroneckerPlasticity(3.0), named_params(module)
        with guard.watch(module):
            ((run() * g).sum() / 4).backward()
        guard.remember(params)
        (name,) = params
        params[name].grad = draw(2, 2, 3) if module is layer else draw(2, 2, 3).mT
        with guard.step(params, 0.5):
            torch.optim.SGD(params.values(), lr=0.5).step()
        ends.append(params[name].detach())
    torch.testing.assert_close(ends[0], ends[1].mT)


@pytest.mark.parametrize("form", ["implicit", "explicit"])
def test_a_bias_that_is_frozen_after_it_was_remembered(form):
    """The weight alone has the penalty tr(V' G V A) with A of its own inputs."""
    layer, x, g = nn.Linear(3, 2).double(), draw(0, 4, 3), draw(1, 4, 2)
    guard = KroneckerPlasticity(2.0, form=form)
    with guard.watch(layer):
        ((layer(x) * g).sum() / 4).backward()
    guard.remember(named_params(layer))
    layer.bias.requires_grad_(False)
    start = draw(3, 2, 3)
    layer.weight.data += start
    layer.weight.grad, layer.bias.grad = torch.zeros_like(layer.weight), None
    anchor = guard.state_dict()["anchor/weight+bias"][0, :, :-1]
    with guard.step(named_params(layer), 0.1):
        torch.optim.SGD([layer.weight], lr=0.1).step()
    moved, a, b = layer.weight.detach() - anchor, x.mT @ x / 4, g.mT @ g / 4
    if form == "implicit":
        torch.testing.assert_close(moved + 0.2 * b @ moved @ a, start)
    else:
        torch.testing.assert_close(moved, start - 0.2 * b @ start @ a)
    layer.zero_grad()
    with guard.watch(layer):
        ((layer(x) * g).sum() / 4).backward()
    guard.remember(named_params(layer))
    assert torch.equal(guard.state_dict()["anchor/weight+bias"][0, :, -1], layer.bias)


def turns(guard, layer, numbers):
    """A turn of one step for each number, which is its seed; then a step of another model that the guard pulls."""
    params = named_params(layer)
    for number in numbers:
        layer.zero_grad()
        with guard.watch(layer):
            ((layer(draw(number, 4, 3)) * draw(number + 1000, 4, 2)).sum() / 4).backward()
        with guard.step(params, 0.1):
            torch.optim.SGD(params.values(), lr=0.1).step()
        guard.remember(params)


@pytest.mark.filterwarnings("ignore::ramet.guards.turns.VoidGuardWarning")
def test_eigenbases_are_renewed_ever_more_rarely(monkeypatch):
    computed = []
    plain = kronecker_memory.eigenbasis
    monkeypatch.setattr(kronecker_memory, "eigenbasis", lambda *factors: computed.append(1) or plain(*factors))
    layer, guard = nn.Linear(3, 2).double(), KroneckerPlasticity()
    counts = []
    for number in range(100):
        turns(guard, layer, [number])
        counts.append(len(computed))
    assert counts[10] == 10, "with each of the first models, as before"
    assert counts[-1] <= 10 + math.log(100 / 10, 1.1) + 1


@pytest.mark.filterwarnings("ignore::ramet.guards.turns.VoidGuardWarning")
def test_between_two_renewals_the_older_factors_act_and_are_saved():
    layer, guard = nn.Linear(3, 2, bias=False).double(), KroneckerPlasticity(2.0)
    turns(guard, layer, range(10))
    older = guard.state_dict()
    turns(guard, layer, range(10, 12))  # 11 is a tenth more than 10, and 12 is not a tenth more than 11
    state = guard.state_dict()
    assert float(state["count/weight"]) == 12 and float(state["acting_count/weight"]) == 11
    assert not torch.equal(state["acting_inputs/weight"], older["inputs/weight"])
    restored = KroneckerPlasticity(2.0)
    restored.load_state_dict(state)
    ends = []
    for keeper in (guard, restored):
        with torch.no_grad():
            layer.weight.copy_(state["anchor/weight"][0] + draw(5, 2, 3))
        layer.weight.grad = torch.zeros_like(layer.weight)
        with keeper.step(named_params(layer), 0.1):
            pass
        ends.append(layer.weight.detach() - state["anchor/weight"][0])
    assert torch.equal(*ends)
    a, g = state["acting_inputs/weight"][0], state["acting_outputs/weight"][0]
    torch.testing.assert_close(ends[0] + 0.1 * 2.0 * 12 * g @ ends[0] @ a, draw(5, 2, 3))


def test_what_a_layer_gave_is_let_go_after_the_step():
    """A hook that held the output which it is on would keep it, and all of its graph, for good."""
    layer, guard = nn.Linear(3, 2), KroneckerPlasticity(1.0)
    with guard.watch(layer):
        output = layer(torch.ones(4, 3))
        output.sum().backward()
    kept = weakref.ref(output)
    del output
    gc.collect()
    assert kept() is None
