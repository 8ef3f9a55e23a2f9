"""Weight plasticity, elastic consolidation and the Fisher information against the formulas as they are written."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.guards import (
    ElasticConsolidation,
    NoGuard,
    WeightPlasticity,
    diagonal_fisher,
    quadratic_penalty,
    sample_labels,
    step_sizes,
)
from ramet.guards.chaining import Chain
from ramet.guards.finite import all_finite
from ramet.guards.making import make_guard
from ramet.guards.quadratic import penalty_gradients, proximal_step_
from ramet.params import named_params
from ramet.testing.guards import make_batch, make_network, make_optimizer, train
from ramet.training.step_sizes import inverse

BOUNDED = settings(max_examples=40, deadline=None, derandomize=True)
strengths = st.floats(1e-3, 1e4)


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def values(network):
    return {name: param.detach().clone() for name, param in network.named_parameters()}


def assert_same(one, other):
    assert all(torch.equal(one[name], other[name]) for name in one)


@BOUNDED
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), strength=strengths, seed=st.integers(0, 2**31))
def test_gradient_equals_autograd_of_the_written_loss(shape, strength, seed):
    theta = draw(seed, *shape).requires_grad_()
    anchor, fisher = draw(seed + 1, *shape), draw(seed + 2, *shape).square()
    (strength / 2 * quadratic_penalty({"w": theta}, {"w": anchor}, {"w": fisher})).backward()
    (gradient,) = penalty_gradients([theta.detach()], [anchor], [fisher], strength)
    torch.testing.assert_close(gradient, theta.grad, rtol=1e-12, atol=0)


@BOUNDED
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), strength=strengths, seed=st.integers(0, 2**31))
def test_proximal_step_minimises_penalty_plus_distance(shape, strength, seed):
    start, anchor, fisher = draw(seed, *shape), draw(seed + 1, *shape), draw(seed + 2, *shape).square()
    theta = start.clone()
    proximal_step_([theta], [anchor], [fisher], [inverse(strength)], torch.ones(()))
    theta.requires_grad_()
    objective = strength / 2 * quadratic_penalty({"w": theta}, {"w": anchor}, {"w": fisher})
    (objective + (theta - start).square().sum() / 2).backward()
    assert float(theta.grad.abs().max()) < 1e-9 * (1 + strength * float(fisher.max()))
    torch.testing.assert_close(theta.detach(), (start + strength * fisher * anchor) / (1 + strength * fisher))


def test_a_step_in_the_optimizers_metric_has_the_bits_of_its_formula():
    """Fewer passes over the weights, and every one of them rounds as the formula does, written out."""
    start, anchor, fisher, size = (draw(seed, 7, 5).float() for seed in range(4))
    fisher, size, factor = fisher.square(), size.abs(), 0.37
    fisher[0, :2], size[0, 1:3] = 0.0, 0.0
    theta = start.clone()
    proximal_step_([theta], [anchor], [fisher], [size], torch.ones(()), [factor])
    expected = torch.lerp(start, anchor, (size * factor / fisher + 1.0).reciprocal())
    assert torch.equal(theta.nan_to_num(7.0), expected.nan_to_num(7.0)) and torch.equal(theta[0, :1], start[0, :1])


def test_gradients_whose_sum_overflows_are_finite():
    largest = torch.finfo(torch.float32).max
    assert float(all_finite([torch.full((4,), largest)])) == 1.0
    assert float(all_finite([torch.tensor([float("inf"), -float("inf")])])) == 0.0


@pytest.mark.parametrize("make", [WeightPlasticity, ElasticConsolidation])
def test_explicit_step_is_a_step_on_the_written_loss(make):
    x, y = make_batch(3)
    network, guard = make_network(), make(50.0, form="explicit")
    train(guard, network, make_optimizer(network), remember=True)
    train(NoGuard(), network, make_optimizer(network), seed=7)
    twin = make_network()
    twin.load_state_dict(network.state_dict())
    state = guard.state_dict()
    fisher = {name.removeprefix("fisher/"): t for name, t in state.items() if name.startswith("fisher/")}
    anchor = {name.removeprefix("anchor/"): t for name, t in state.items() if name.startswith("anchor/")}
    (cross_entropy(twin(x), y) + 25.0 * quadratic_penalty(named_params(twin), anchor, fisher)).backward()
    make_optimizer(twin).step()
    network.zero_grad()
    cross_entropy(network(x), y).backward()
    with guard.step(named_params(network), 0.05):
        make_optimizer(network).step()
    for name, value in values(network).items():
        torch.testing.assert_close(value, values(twin)[name])


@pytest.mark.parametrize("form", ["implicit", "explicit"])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
@pytest.mark.parametrize("zero", ["alpha", "fisher", "decayed"])
def test_without_alpha_or_fisher_training_is_plain_bit_for_bit(form, kind, zero):
    results = []
    for guarded in (True, False):
        guard = NoGuard()
        if guarded:
            guard = WeightPlasticity(0.0 if zero == "alpha" else 60.0, form=form, decay=1.0, decay_from=10)
        network = make_network()
        optimizer = make_optimizer(network, kind)
        train(guard, network, optimizer)
        fisher = {name: torch.zeros_like(p) for name, p in network.named_parameters()} if zero == "fisher" else None
        guard.remember(named_params(network), fisher)
        guard.start_epoch(80 if zero == "decayed" else 0)
        train(guard, network, optimizer, path=1, seed=10, steps=5)
        train(guard, network, optimizer, path=0, seed=20, steps=5)
        results.append(values(network))
    assert_same(*results)


def test_implicit_is_stable_where_explicit_diverges():
    """One weight with F = 1, step size 0.1 and alpha 1000: 0.1 * 1000 * 1 is far above 2."""
    ends = {}
    for form in ("implicit", "explicit"):
        weight = nn.Parameter(torch.tensor([0.0]))
        guard, optimizer = WeightPlasticity(1000.0, form=form), torch.optim.SGD([weight], lr=0.1)
        guard.remember({"w": weight}, {"w": torch.ones(1)})
        for _ in range(10):
            weight.grad = torch.tensor([1.0])
            with guard.step({"w": weight}, 0.1):
                optimizer.step()
        ends[form] = abs(float(weight.detach()))
    assert ends["implicit"] < 1e-2 < 1e6 < ends["explicit"]


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_both_forms_come_to_rest_at_the_same_point(momentum):
    """Loss w, penalty 5 / 2 * w^2: the rest is at w = -1 / 5, whatever the momentum."""
    for form in ("implicit", "explicit"):
        weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        guard = WeightPlasticity(5.0, form=form)
        optimizer = torch.optim.SGD([weight], lr=0.02, momentum=momentum)
        guard.remember({"w": weight}, {"w": torch.ones(1)})
        guard.anchor["w"].zero_()
        for _ in range(400):
            weight.grad = torch.ones(1, dtype=torch.float64)
            with guard.step({"w": weight}, step_sizes(optimizer, {"w": weight})):
                optimizer.step()
        assert abs(float(weight.detach()) + 0.2) < 1e-6


def test_step_sizes_by_name():
    network = make_network()
    groups = [{"params": network.shared.parameters(), "lr": 0.5}, {"params": network.heads.parameters()}]
    sizes = step_sizes(torch.optim.SGD(groups, lr=0.1), named_params(network))
    assert sizes["shared.weight"] == 0.5 and sizes["heads.0.bias"] == 0.1 and "branches.0.weight" not in sizes


@pytest.mark.parametrize("make", [WeightPlasticity, ElasticConsolidation])
def test_many_models_are_the_sum_of_their_penalties(make):
    weight = nn.Parameter(draw(0, 5))
    guard = make(1.0)
    models = [(draw(10 + k, 5), draw(20 + k, 5).square()) for k in range(4)]
    models[2][1][0] = 0.0  # a weight that one of the models does not need
    for anchor, fisher in models:
        with torch.no_grad():
            weight.copy_(anchor)
        guard.remember({"w": weight}, {"w": fisher})
    theta = draw(1, 5).requires_grad_()
    sum(quadratic_penalty({"w": theta}, {"w": a}, {"w": f}) for a, f in models).backward()
    expected, theta.grad = theta.grad, None
    state = guard.state_dict()
    quadratic_penalty({"w": theta}, {"w": state["anchor/w"]}, {"w": state["fisher/w"]}).backward()
    torch.testing.assert_close(theta.grad, expected)


def test_search_variant_by_hand():
    weight, other = nn.Parameter(torch.tensor([1.0])), nn.Parameter(torch.tensor([1.0]))
    params = {"w": weight, "other": other}
    guard = WeightPlasticity.for_search(60.0, warmup_epochs=5)
    for epoch in range(5):  # nothing is remembered during the warm-up
        guard.start_epoch(epoch)
        weight.grad = torch.tensor([2.0])
        guard.remember(params)
    assert guard.alpha == 0.0 and guard.report()["guarded_values"] == 0
    guard.start_epoch(5)
    assert guard.alpha == 60.0
    guard.remember(params)  # F = 0.9 * 2^2
    weight.data.fill_(3.0)
    weight.grad = torch.tensor([1.0])
    guard.remember(params)  # F = 0.1 * 3.6 + 0.9 * 1
    state = guard.state_dict()
    assert state["fisher/w"].item() == pytest.approx(1.26)
    assert state["anchor/w"].item() == 3.0  # the model trained last
    assert "fisher/other" not in state  # off the path
    for epoch in (6, 7):
        guard.start_epoch(epoch)
    assert guard.state_dict()["fisher/w"].item() == pytest.approx(1.26)
    guard.start_epoch(8)  # three epochs after the start: flushed
    assert guard.state_dict()["fisher/w"].item() == 0.0
    alphas = []
    for epoch in (14, 15, 16, 20, 75, 90):
        guard.start_epoch(epoch)
        alphas.append(guard.alpha)
    assert alphas == [60.0, 60.0, 59.0, 55.0, 0.0, 0.0]


def test_fisher_of_a_tensor_is_scaled_to_its_limit():
    weight, small = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    weight.grad, small.grad = torch.tensor([10.0, 0.0]), torch.tensor([2.0])
    guard = WeightPlasticity(max_fisher_norm=10.0)
    guard.remember({"w": weight, "small": small})
    state = guard.state_dict()
    assert state["fisher/w"].tolist() == pytest.approx([10.0, 0.0]) and state["fisher/small"].tolist() == [4.0]


def test_only_protected_names_are_remembered():
    network, guard = make_network(), WeightPlasticity(protect=["shared.*", "*.0.bias"])
    train(guard, network, make_optimizer(network), remember=True)
    names = {name.removeprefix("fisher/") for name in guard.state_dict() if name.startswith("fisher/")}
    assert names == {"shared.weight", "shared.bias", "branches.0.bias", "heads.0.bias"}


def test_changed_shapes_are_refused_until_forgotten():
    network, guard = make_network(), WeightPlasticity()
    train(guard, network, make_optimizer(network), remember=True)
    network.heads[0] = nn.Linear(6, 4)
    with pytest.raises(ConfigError, match=r"keeps its shape.*heads.0.weight went from \(3, 6\) to \(4, 6\)"):
        train(guard, network, make_optimizer(network))
    guard.forget()
    train(guard, network, make_optimizer(network), remember=True)


def test_remember_without_gradients_says_so():
    network = make_network()
    with pytest.raises(ConfigError, match="call it before zero_grad"):
        WeightPlasticity().remember(named_params(network))


def test_sparse_gradients():
    table = nn.Embedding(5, 2, sparse=True)
    for form, fine in (("implicit", True), ("explicit", False)):
        guard = WeightPlasticity(form=form)
        table.zero_grad()
        table(torch.tensor([1, 1, 3])).sum().backward()
        guard.remember(named_params(table))
        assert guard.state_dict()["fisher/weight"][:, 0].tolist() == [0.0, 4.0, 0.0, 1.0, 0.0]
        if fine:
            with guard.step(named_params(table), 0.1):
                torch.optim.SGD(table.parameters(), lr=0.1).step()
        else:
            with pytest.raises(ConfigError, match="dense"), guard.step(named_params(table), 0.1):
                pass


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (WeightPlasticity, {"strength": -1.0}),
        (WeightPlasticity, {"strength": float("nan")}),
        (WeightPlasticity, {"form": "both"}),
        (WeightPlasticity, {"eta": 0.0}),
        (WeightPlasticity, {"eta": 1.25}),
        (WeightPlasticity, {"warmup_epochs": -1}),
        (WeightPlasticity, {"flush_every": 0}),
        (WeightPlasticity, {"max_fisher_norm": 0.0}),
        (ElasticConsolidation, {"discount": 1.5}),
    ],
)
def test_bad_values_are_refused(make, arguments):
    with pytest.raises(ConfigError, match="but got"):
        make(**arguments)


@pytest.mark.parametrize("chunk_size", [None, 3])
def test_diagonal_fisher_equals_a_loop_over_samples(chunk_size):
    network = make_network(torch.float64).eval()
    x, y = make_batch(0, torch.float64)
    fisher = diagonal_fisher(network, cross_entropy, x, y, chunk_size=chunk_size)
    expected = {}
    for sample, target in zip(x, y, strict=True):
        network.zero_grad()
        cross_entropy(network(sample[None]), target[None]).backward()
        for name, param in network.named_parameters():
            if param.grad is not None:
                expected[name] = expected.get(name, 0) + param.grad.square() / len(x)
    assert fisher.keys() == expected.keys()  # the other path has no entry
    for name in expected:
        torch.testing.assert_close(fisher[name], expected[name])


def test_diagonal_fisher_with_batch_norm_arguments_and_buffers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.frozen, self.out = nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x, scale):
            return self.out(self.frozen(self.norm(x))) * scale

    network = Net()
    x, y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1, 1, 0])
    with pytest.raises(ConfigError, match="evaluation mode"):
        diagonal_fisher(network, cross_entropy, x, y, arguments=(2.0,))
    fisher = diagonal_fisher(network.eval(), cross_entropy, x, y, arguments=(2.0,))
    assert fisher.keys() == {"norm.weight", "norm.bias", "out.weight", "out.bias"}
    with pytest.raises(ConfigError, match="as many targets"):
        diagonal_fisher(network, cross_entropy, x[:0], y[:0], arguments=(2.0,))


def test_mini_batch_fisher_is_smaller_by_the_batch_size_at_an_optimum():
    """Per-sample gradients of independent sign: the squared mean is F / N on average, the mean square is F."""
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(64, 2000, generator=generator)  # 2,000 weights at an optimum, batches of 64
    ratio = gradients.square().mean(0).mean() / gradients.mean(0).square().mean()
    assert 50 < float(ratio) < 80


def test_sampled_labels_follow_the_predictions():
    logits = torch.log(torch.tensor([[0.2, 0.8]])).expand(4000, 2)
    labels = sample_labels(logits, torch.Generator().manual_seed(0))
    assert labels.dtype == torch.int64 and abs(float(labels.double().mean()) - 0.8) < 0.03


@pytest.mark.parametrize("text", ["plasticity:1e+06", "plasticity:1E+6", "plasticity:1e6", "plasticity:1000000"])
def test_a_strength_may_have_an_exponent_although_a_plus_joins_guards(text: str) -> None:
    guard = make_guard(text)
    assert isinstance(guard, WeightPlasticity)
    assert guard.strength == 1e6
    assert isinstance(make_guard(f"{text}+projection"), Chain)


def test_nothing_to_keep_costs_nothing_and_is_finite():
    assert float(quadratic_penalty({"w": torch.ones(2)}, {}, {})) == 0.0
    assert float(quadratic_penalty({}, {}, {"w": torch.ones(2)})) == 0.0
    assert float(all_finite([])) == float(all_finite([torch.zeros(0)])) == 1.0
    assert float(all_finite([torch.ones(2), torch.tensor([float("nan")])])) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("place", [0, 4, 6])
@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(value, place, dtype):
    tensors = [torch.full((2, 2), torch.finfo(dtype).max, dtype=dtype), -torch.ones(3, dtype=dtype)]
    assert float(all_finite(tensors)) == 1.0, "the largest of all numbers is one"
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    flat[place] = value
    assert float(all_finite([flat[:4].reshape(2, 2), flat[4:]])) == 0.0


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("implicit", "fisher"),
        ("implicit", "trace"),
        ("implicit", "hold"),
        ("explicit", "fisher"),
        ("explicit", "trace"),
    ],
)
def test_weights_in_channels_last_are_guarded_and_resumed_to_the_same_bits(form, unit):
    """What is remembered lies as its parameter does, in a file as it is, and afterwards where it lay."""
    generator = torch.Generator().manual_seed(0)
    data = [torch.randn(4, 3, 5, 5, generator=generator) for _ in range(6)]

    def make() -> tuple[nn.Module, WeightPlasticity, torch.optim.Optimizer]:
        torch.manual_seed(1)
        network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3))
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        guard = WeightPlasticity(0.9 if unit == "hold" else 3.0, form=form, unit=unit, eta=0.5, towards="mean")
        return network, guard, torch.optim.SGD(network.parameters(), lr=0.1)

    def go_on(network, guard, optimizer, batches) -> None:
        for x in batches:
            optimizer.zero_grad()
            network(x).square().mean().backward()
            with guard.step(named_params(network), 0.1):
                optimizer.step()
            guard.remember(named_params(network))

    whole, guard, optimizer = make()
    go_on(whole, guard, optimizer, data[:3])
    state = guard.state_dict()
    assert all(tensor.is_contiguous() for tensor in state.values())
    resumed, twin, second = make()
    resumed.load_state_dict(whole.state_dict())
    twin.load_state_dict(state)
    go_on(whole, guard, optimizer, data[3:])
    go_on(resumed, twin, second, data[3:])
    for name, param in whole.named_parameters():
        assert torch.equal(param, dict(resumed.named_parameters())[name]), name
        assert guard.fisher[name].stride() == twin.fisher[name].stride() == twin.anchor[name].stride() == param.stride()
    for name, tensor in guard.state_dict().items():
        assert torch.equal(tensor, twin.state_dict()[name]), name


def test_a_search_has_the_values_of_the_released_code():
    """Alpha 60, down by 1 an epoch from epoch 15 on; it begins at epoch 5, and the Fisher buffer is flushed every 3."""
    guard = WeightPlasticity.for_search()
    assert (guard.strength, guard.decay, guard.decay_from) == (60.0, 1.0, 15)
    assert (guard.warmup_epochs, guard.flush_every, guard.eta) == (5, 3, 0.9)
    plain = WeightPlasticity()
    assert (plain.strength, plain.decay, plain.decay_from, plain.warmup_epochs) == (60.0, 0.0, 0, 0)
    assert plain.flush_every is None and plain.eta is None


def alphas(num_epochs, text="plasticity", warmup_epochs=5):
    guard, found = make_guard(text, warmup_epochs=warmup_epochs, num_epochs=num_epochs), []
    for epoch in range(num_epochs):
        guard.start_epoch(epoch)
        found.append(guard.alpha)
    return found


def test_alpha_falls_within_the_run():
    """In the paper's 150 epochs it is the released code's course; in others the same share of the run."""
    released = [0.0 if epoch < 5 else max(0.0, 60.0 - max(0, epoch - 15)) for epoch in range(150)]
    assert alphas(150) == pytest.approx(released)
    # 60 epochs: whole until the sixth, and from there by 1 / 24 an epoch down to 0 at the thirtieth.
    expected = [0.0] * 5 + [100.0 * min(1, max(0, 30 - epoch) / 24) for epoch in range(5, 60)]
    assert alphas(60, "plasticity:100") == pytest.approx(expected)
    long = alphas(40, "plasticity:1e5:fall_from=0.25,fall_to=0.75")
    assert long[5:11] == [1e5] * 6 and long[20] == pytest.approx(5e4) and long[30:] == [0.0] * 10
    # A warm-up of the guard that ends later: it falls from there on.
    assert alphas(12, "plasticity:60:fall_from=0.1,fall_to=1") == pytest.approx(
        [0.0] * 5 + [60.0 * (12 - epoch) / 7 for epoch in range(5, 12)]
    )


def test_a_decay_in_epochs_is_taken_as_it_is():
    assert alphas(20, "plasticity:60:decay=10,decay_from=2", 0) == pytest.approx(
        [60.0 - 10 * min(6, max(0, epoch - 2)) for epoch in range(20)]
    )
    assert WeightPlasticity.for_search(decay=2.0, num_epochs=10).decay_from == 15
    with pytest.raises(ConfigError, match=r"below fall_to, but got 0\.5 and 0\.5"):
        make_guard("plasticity:60:fall_from=0.5,fall_to=0.5")


@pytest.mark.parametrize(
    ("options", "worst"),
    [({"warmup_epochs": -1}, "-1"), ({"decay": -2.0, "decay_from": 3}, "-2.0"), ({"decay_from": -1}, "-1")],
)
def test_negative_numbers_are_named(options, worst):
    with pytest.raises(ConfigError, match=f"must not be negative, but got {worst}"):
        WeightPlasticity(**options)


def test_the_smallest_values_that_are_allowed():
    assert WeightPlasticity(flush_every=1, max_fisher_norm=0.5).flush_every == 1
    with pytest.raises(ConfigError, match="flush_every must be at least 1"):
        WeightPlasticity(flush_every=0)
    with pytest.raises(ConfigError, match="max_fisher_norm must be above 0"):
        WeightPlasticity(max_fisher_norm=0.0)


def test_a_training_begins_in_epoch_0():
    guard = WeightPlasticity(warmup_epochs=1)
    assert guard.alpha == 0.0
    guard.start_epoch(1)
    assert guard.alpha == 60.0


def test_a_buffer_of_one_epoch_is_flushed_after_its_first():
    weight = nn.Parameter(torch.ones(1))
    guard = WeightPlasticity(warmup_epochs=2, flush_every=1)
    guard.start_epoch(2)
    weight.grad = torch.ones(1)
    guard.remember({"w": weight})
    assert guard.state_dict()["fisher/w"].item() == 1.0
    guard.start_epoch(3)
    assert guard.state_dict()["fisher/w"].item() == 0.0


def test_elastic_consolidation_has_the_values_of_its_docstring():
    assert (ElasticConsolidation().strength, ElasticConsolidation().discount) == (1000.0, 1.0)
    search = ElasticConsolidation.for_search()
    assert (search.strength, search.discount) == (60.0, 0.9)
    assert ElasticConsolidation(discount=0.0).discount == 0.0, "only the last task is kept"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", ["implicit", "explicit"])
def test_a_weak_guard_pulls_too_in_any_precision(form, dtype):
    """F = 4 around 1, alpha 0.5, at 3, a step size of 0.25: the distance of 2 is halved, or divided by 1.5."""
    weight = nn.Parameter(torch.tensor([1.0], dtype=dtype))
    weight.grad = torch.tensor([2.0], dtype=dtype)
    guard = WeightPlasticity(0.5, form=form)
    guard.remember({"w": weight})
    weight.data.fill_(3.0)
    weight.grad = torch.zeros(1, dtype=dtype)
    with guard.step({"w": weight}, 0.25):
        torch.optim.SGD([weight], lr=0.25).step()
    expected = {"explicit": 3 - 0.25 * 0.5 * 4 * 2, "implicit": 1 + 2 / (1 + 0.25 * 0.5 * 4)}[form]
    assert weight.item() == pytest.approx(expected, rel=torch.finfo(dtype).eps)


def test_a_parameter_that_matters_in_part_is_kept_whole():
    layer = nn.Linear(2, 2, bias=False).eval()
    fisher = diagonal_fisher(layer, cross_entropy, torch.tensor([[1.0, 0.0]]), torch.tensor([0]))["weight"]
    assert (fisher[:, 0] > 0).all() and (fisher[:, 1] == 0).all()
