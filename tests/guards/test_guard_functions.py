"""Products outside of torch's layers: whatever function makes them, the projection is that of what met the weight."""

from __future__ import annotations

import pytest
import torch
from exact_projection import exact
from guarded_layer import double, guarded_update, seeded
from torch import nn
from torch.nn import functional

import ramet.guards
from ramet.guards import OrthogonalProjection
from ramet.params import named_params


class Made(nn.Module):
    """Parameters of some shapes, and a function of them and x."""

    def __init__(self, function, **shapes):
        super().__init__()
        self.function = function
        for place, (name, shape) in enumerate(shapes.items()):
            self.register_parameter(name, nn.Parameter(seeded(double, shape, seed=place + 3)))

    def forward(self, x):
        return self.function(x, **dict(self.named_parameters()))


X = seeded(double, 3, 6)  # three inputs of six values


def rows(update, *inputs):
    """What is let through of an update that is [outputs, inputs], for inputs that are rows."""
    return update @ exact(torch.cat(inputs).mT, LAMBDA)


LAMBDA = 0.7
MATRICES = {
    "linear": (lambda x, w: functional.linear(x, w), (4, 6), lambda u: rows(u, X)),
    "right": (lambda x, w: x @ w, (6, 4), lambda u: rows(u.mT, X).mT),
    "mm": (lambda x, w: torch.mm(x, w), (6, 4), lambda u: rows(u.mT, X).mT),
    "keyword": (lambda x, w: torch.matmul(input=x, other=w), (6, 4), lambda u: rows(u.mT, X).mT),
    "right-transposed": (lambda x, w: x @ w.T, (4, 6), lambda u: rows(u, X)),
    "left": (lambda x, w: w @ x.mT, (4, 6), lambda u: rows(u, X)),
    "vector": (lambda x, w: x @ w, (6,), lambda u: rows(u[None], X)[0]),
    "vector-left": (lambda x, w: w @ x.mT, (6,), lambda u: rows(u[None], X)[0]),
    "sequence": (lambda x, w: x[:, None].expand(3, 2, 6) @ w, (6, 4), lambda u: rows(u.mT, X, X).mT),
    "bmm": (
        lambda x, w: torch.bmm(torch.stack([x, 2 * x]), w),
        (2, 6, 4),
        lambda u: torch.stack([rows(u[0].mT, X).mT, rows(u[1].mT, 2 * X).mT]),
    ),
    "bmm-transposed": (
        lambda x, w: torch.stack([x, 2 * x]) @ w.mT,
        (2, 4, 6),
        lambda u: torch.stack([rows(u[0], X), rows(u[1], 2 * X)]),
    ),
    "experts": (
        lambda x, w: torch.stack([x, 2 * x])[:, None] @ w,
        (2, 6, 4),  # each of two matrices meets both inputs
        lambda u: torch.stack([rows(part.mT, X, 2 * X).mT for part in u]),
    ),
    "einsum": (lambda x, w: torch.einsum("ni,io->no", x, w), (6, 4), lambda u: rows(u.mT, X).mT),
    "einsum-rows": (lambda x, w: torch.einsum("ni, oi -> no", x, w), (4, 6), lambda u: rows(u, X)),
    "einsum-heads": (
        lambda x, w: torch.einsum("ni,ihk->nhk", x, w),
        (6, 2, 3),
        lambda u: rows(u.reshape(6, 6).mT, X).mT.reshape(6, 2, 3),
    ),
    "einsum-out": (
        lambda x, w: torch.einsum("nhk,hko->no", x.reshape(3, 2, 3), w),
        (2, 3, 4),
        lambda u: rows(u.reshape(6, 4).mT, X).mT.reshape(2, 3, 4),
    ),
    "einsum-groups": (
        lambda x, w: torch.einsum("gni,goi->gno", torch.stack([x, 2 * x]), w),
        (2, 4, 6),
        lambda u: torch.stack([rows(u[0], X), rows(u[1], 2 * X)]),
    ),
    "einsum-ellipsis": (lambda x, w: torch.einsum("...i,oi->...o", x[:, None], w), (4, 6), lambda u: rows(u, X)),
    "einsum-implicit": (lambda x, w: torch.einsum("ni,io", x, w), (6, 4), lambda u: rows(u.mT, X).mT),
    "sparse": (lambda x, w: x.to_sparse() @ w, (6, 4), lambda u: rows(u.mT, X).mT),
    "some-inputs": (
        lambda x, w: functional.linear(x[:, :4], w[:, :4]),
        (4, 6),
        lambda u: rows(u, torch.cat([X[:, :4], torch.zeros(3, 2)], dim=1).double()),
    ),
    "some-outputs": (lambda x, w: functional.linear(x, w[:2]), (4, 6), lambda u: torch.cat([rows(u[:2], X), u[2:]])),
    "many-parts": (lambda x, w: functional.linear(x, w[:1]), (40, 6), lambda u: rows(u, X)),  # all rows take them
    "parts": (
        lambda x, w: sum(functional.linear((1 + k) * x, part) for k, part in enumerate(w.chunk(3))),
        (6, 6),
        lambda u: torch.cat([rows(part, (1 + k) * X) for k, part in enumerate(u.chunk(3))]),
    ),
    "uneven-parts": (
        lambda x, w: functional.linear(x, w[:2]).sum() + functional.linear(2 * x, w[2:]).sum(),
        (6, 6),
        lambda u: torch.cat([rows(u[:2], X), rows(u[2:], 2 * X)]),
    ),
    "whole-then-parts": (
        lambda x, w: functional.linear(x, w).sum() + functional.linear(2 * x, w[4:]).sum(),
        (6, 6),
        lambda u: torch.cat([rows(u[:4], X), rows(u[4:], X, 2 * X)]),
    ),
    "parts-then-whole": (
        lambda x, w: functional.linear(x, w[4:]).sum() + functional.linear(2 * x, w).sum(),
        (6, 6),
        lambda u: torch.cat([rows(u[:4], 2 * X), rows(u[4:], X, 2 * X)]),
    ),
    "on-both-sides": (
        lambda x, w: (x @ w) @ w.T,
        (6, 4),
        lambda u: rows(rows(u.mT, X).mT, X @ seeded(double, 6, 4, seed=3)),
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_has_the_projection_of_what_it_met(name):
    function, shape, expected = MATRICES[name]
    network, guard = Made(function, w=shape), OrthogonalProjection(LAMBDA)
    with guard.watch(network):
        network(X).sum().backward()
    guard.remember(named_params(network))
    raw, moved = guarded_update(guard, network)
    torch.testing.assert_close(moved["w"], expected(raw["w"]))
    assert not torch.allclose(moved["w"], raw["w"])
    restored = OrthogonalProjection(LAMBDA)  # a saved state needs no module
    restored.load_state_dict(guard.state_dict())
    torch.testing.assert_close(guarded_update(restored, network)[1]["w"], expected(raw["w"]))


def test_low_rank_adapters_as_raw_parameters():
    network = Made(lambda x, a, b: x @ a @ b, a=(6, 2), b=(2, 4))
    guard = OrthogonalProjection(0.0)
    inner = (X[:1] @ network.a).detach()
    before = network(X[:1]).detach()
    with guard.watch(network):
        network(X[:1]).sum().backward()
    guard.remember(named_params(network))
    raw, moved = guarded_update(guard, network)
    torch.testing.assert_close(network(X[:1]).detach(), before)
    for name, seen in (("a", X[:1]), ("b", inner)):
        along = seen.mT @ torch.linalg.pinv(seen.mT)
        torch.testing.assert_close(moved[name], raw[name] - along @ raw[name])


class Conv1D(nn.Module):
    """The linear layer of some language models: its weight is stored as [inputs, outputs]."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Squashed(nn.Linear):
    """A linear layer that changes its input first."""

    def forward(self, x):
        return super().forward(torch.tanh(3 * x))


class Adapted(nn.Module):
    """A low-rank adapter as layers."""

    def __init__(self):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(6, 4), nn.Linear(6, 2, bias=False), nn.Linear(2, 4, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + 0.5 * self.up(self.down(x))


class Kernel(torch.autograd.Function):
    """A product that torch's functions do not show."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.from_numpy(x.detach().numpy() @ weight.detach().numpy().T + bias.detach().numpy())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.mT @ x, grad.sum(0)


class OwnKernel(nn.Linear):
    def forward(self, x):
        return Kernel.apply(x, self.weight, self.bias)


class ToldKernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.zeros(4))

    def forward(self, x):
        x = torch.tanh(3 * x)
        ramet.guards.product(x, self.w, self.b)
        return Kernel.apply(x, self.w, self.b)


LAYERS = {
    "conv1d": (lambda: Conv1D(4, 6), "weight", "bias", lambda x: x, "weight^T+bias"),
    "squashed": (lambda: Squashed(6, 4), "weight", "bias", lambda x: torch.tanh(3 * x), "weight+bias"),
    "own-kernel": (lambda: OwnKernel(6, 4), "weight", "bias", lambda x: x, "weight+bias"),
    "told-kernel": (ToldKernel, "w", "b", lambda x: torch.tanh(3 * x), "w+(b)"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_others(name):
    make, weight, bias, met, key = LAYERS[name]
    layer, guard = seeded(make).double(), OrthogonalProjection(LAMBDA)
    with guard.watch(layer):
        layer(X).sum().backward()
    guard.remember(named_params(layer))
    assert set(guard.open_shares()) == {key}
    raw, moved = guarded_update(guard, layer)
    turned = raw[weight] if raw[weight].shape == (4, 6) else raw[weight].mT
    expected = rows(
        torch.cat([turned, raw[bias][:, None]], dim=1), torch.cat([met(X), torch.ones(3, 1)], dim=1).double()
    )
    torch.testing.assert_close(moved[bias], expected[:, -1])
    torch.testing.assert_close(
        moved[weight].reshape_as(raw[weight]),
        expected[:, :-1].reshape(4, 6).mT if raw[weight].shape == (6, 4) else expected[:, :-1],
    )


def test_a_low_rank_adapter_as_layers():
    layer, guard = seeded(Adapted).double(), OrthogonalProjection(0.0)
    before = layer(X[:1]).detach()
    with guard.watch(layer):
        layer(X[:1]).sum().backward()
    guard.remember(named_params(layer))
    _, moved = guarded_update(guard, layer)
    torch.testing.assert_close(layer(X[:1]).detach(), before)
    assert set(moved) == {"down.weight", "up.weight"} and moved["down.weight"].norm() > 0.1


ENTRIES = {
    "scale": (lambda x, p: x * p, (6,), X.square().sum(0)),
    "scale-in-place": (lambda x, p: x.clone().mul_(p), (6,), X.square().sum(0)),
    "one-scale": (lambda x, p: p * x, (), X.square().sum()),
    "some": (lambda x, p: x * p[:6], (8,), torch.cat([X.square().sum(0), torch.zeros(2)])),
    "shift": (lambda x, p: x + p, (6,), torch.full((6,), 3.0)),
    "shift-in-place": (lambda x, p: x.clone().sub_(p), (6,), torch.full((6,), 3.0)),
    "positions": (
        lambda x, p: x.reshape(3, 2, 3) + p[:, :2],
        (1, 5, 3),
        torch.cat([torch.full((1, 2, 3), 3.0), torch.zeros(1, 3, 3)], dim=1),
    ),
    "class-token": (lambda x, p: torch.cat([p.expand(4, -1, -1), x.reshape(-1, 1, 3)[:4]], dim=1), (1, 1, 3), 4.0),
    "prelu": (lambda x, p: functional.prelu(x, p), (6,), X.clamp(max=0).square().sum(0)),
    "norm": (
        lambda x, p: functional.layer_norm(x, (6,), p),
        (6,),
        functional.layer_norm(X, (6,)).square().sum(0),
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_let_through_by_the_energy_of_what_it_met(name):
    function, shape, energy = ENTRIES[name]
    network, guard = Made(function, p=shape), OrthogonalProjection(LAMBDA)
    with guard.watch(network):
        network(X).sum().backward()
    guard.remember(named_params(network))
    raw, moved = guarded_update(guard, network)
    torch.testing.assert_close(moved["p"], raw["p"] * LAMBDA / (LAMBDA + torch.as_tensor(energy)))


@pytest.mark.parametrize(
    "look_up",
    [
        lambda x, p: p[torch.tensor([[1, 1], [3, -1]])],
        lambda x, p: p.index_select(0, torch.tensor([1, 1, 3, 4])),
        lambda x, p: functional.embedding(torch.tensor([1, 1, 3, 4]), p),
    ],
)
def test_rows_that_are_looked_up(look_up):
    network, guard = Made(look_up, p=(5, 2)), OrthogonalProjection(1.0)
    with guard.watch(network):
        network(X).sum().backward()
    guard.remember(named_params(network))
    raw, moved = guarded_update(guard, network)
    torch.testing.assert_close((moved["p"] / raw["p"])[:, 0], torch.tensor([1, 1 / 3, 1, 1 / 2, 1 / 2]).double())


@pytest.mark.parametrize("inputs", ["all", "mean"])
def test_mean_inputs_of_every_kind(inputs):
    network = Made(lambda x, w, p: (x * p) @ w, w=(6, 4), p=(6,))
    guard = OrthogonalProjection(LAMBDA, inputs=inputs)
    with guard.watch(network):
        network(X).sum().backward()
    met = (X * network.p).detach()
    guard.remember(named_params(network))
    raw, moved = guarded_update(guard, network)
    x, met = (X, met) if inputs == "all" else (X.mean(0, keepdim=True), met.mean(0, keepdim=True))
    torch.testing.assert_close(moved["w"], rows(raw["w"].mT, met).mT)
    torch.testing.assert_close(moved["p"], raw["p"] * LAMBDA / (LAMBDA + x.square().sum(0)))


def test_a_weight_that_is_looked_up_and_multiplied_without_layers():
    """As with tied layers: its rows by their counts, and its columns by what they met."""
    network = Made(lambda x, w: functional.linear(w[torch.tensor([0, 2])], w), w=(5, 4))
    guard, hidden = OrthogonalProjection(0.0), network.w[[0, 2]].detach()
    with guard.watch(network):
        logits = network(X)
        logits.sum().backward()
    guard.remember(named_params(network))
    assert set(guard.open_shares()) == {"w", "w^M"}
    _, moved = guarded_update(guard, network)
    torch.testing.assert_close(network.w[[0, 2]].detach(), hidden)
    torch.testing.assert_close(network(X).detach(), logits.detach())
    assert moved["w"].norm() > 0.1


def test_a_bias_that_is_a_part_of_a_parameter():
    network = Made(lambda x, w, b: functional.linear(x, w, b[:4]), w=(4, 6), b=(7,))
    guard, before = OrthogonalProjection(0.0), network(X[:2]).detach()
    with guard.watch(network):
        network(X[:2]).sum().backward()
    guard.remember(named_params(network))
    raw, moved = guarded_update(guard, network)
    torch.testing.assert_close(network(X[:2]).detach(), before)
    torch.testing.assert_close(moved["b"][4:], raw["b"][4:])
    assert moved["w"].norm() > 0.1


def test_two_layers_with_one_weight_and_biases_of_their_own():
    network = nn.ModuleList([nn.Linear(6, 4), nn.Linear(6, 4)]).double()
    network[1].weight = network[0].weight
    guard, x, other = OrthogonalProjection(0.0), X[:1], X[1:2]
    before = network[0](x).detach(), network[1](other).detach()
    with guard.watch(network):
        (network[0](x) + network[1](other)).sum().backward()
    guard.remember(named_params(network))
    _, moved = guarded_update(guard, network)
    torch.testing.assert_close((network[0](x).detach(), network[1](other).detach()), before)
    assert moved["0.weight"].norm() > 0.1


def test_attention_between_two_sequences_closes_for_each_part_what_it_met():
    layer = seeded(nn.MultiheadAttention, 6, 2, bias=False).double()
    query, memory = X[:, None], 2 * seeded(double, 4, 1, 6, seed=8)
    guard = OrthogonalProjection(LAMBDA)
    with guard.watch(layer):
        layer(query, memory, memory)
    guard.remember(named_params(layer))
    raw, moved = guarded_update(guard, layer)
    parts = zip(raw["in_proj_weight"].chunk(3), (query, memory, memory), strict=True)
    torch.testing.assert_close(moved["in_proj_weight"], torch.cat([rows(part, x[:, 0]) for part, x in parts]))


def test_what_torch_gives_is_the_same_inside_and_outside():
    layer = seeded(nn.TransformerEncoderLayer, 6, 2, 8, dropout=0.3).double()
    results = []
    for guard in (OrthogonalProjection(), None):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layer.zero_grad()
            if guard is None:
                layer(X[:, None]).square().sum().backward()
            else:
                with guard.watch(layer):
                    layer(X[:, None]).square().sum().backward()
        results.append([param.grad for param in layer.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
