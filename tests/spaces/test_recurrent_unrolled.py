"""The recurrent cell with a backward pass of its own, against the plain one that autograd goes through."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode

from ramet.spaces import Recurrent
from ramet.spaces.recurrent import space as module

WORDS, BATCH, TIMES = 11, 3, 5
ARCHS = ["tanh 0:relu 0:identity 2:sigmoid", "sigmoid 0:tanh 1:tanh 2:tanh", "relu 0:sigmoid 0:relu 0:identity"]


def make(max_norm: float = 25.0, **options: float):
    torch.manual_seed(3)
    space = Recurrent(6, 4, input_dropout=0.0, output_dropout=0.0, word_dropout=0.0, max_norm=max_norm, **options)
    network = space.supernet(1, WORDS).double()
    for param in network.parameters():
        torch.nn.init.normal_(param)  # large enough for every activation to bend
    return space, network


def gradients(network, arch):
    x, y = torch.randint(WORDS, (2, BATCH, TIMES), generator=torch.Generator().manual_seed(1))
    network.zero_grad()
    loss = cross_entropy(network(x, arch), y)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


@pytest.fixture
def calls(monkeypatch):
    """How often the window was unrolled."""
    made = []
    unrolled = module.unrolled
    monkeypatch.setattr(module, "unrolled", lambda *given: made.append(1) or unrolled(*given))
    return made


@pytest.mark.parametrize("text", ARCHS)
@pytest.mark.parametrize("max_norm", [25.0, 0.7])  # no state is that long; nearly all are
def test_values_and_gradients_are_those_of_the_plain_cell(text, max_norm, calls, monkeypatch):
    space, network = make(max_norm)
    arch = space.parse(text)
    loss, found = gradients(network, arch)
    assert calls
    monkeypatch.setattr(module, "can_unroll", lambda *given: False)
    plain, expected = gradients(network, arch)
    assert len(calls) == 1
    # Sums of at most a few hundred products of numbers near one, in double precision.
    torch.testing.assert_close(loss, plain, rtol=1e-12, atol=1e-12)
    assert found.keys() == expected.keys()
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-12)


def test_numerical_derivatives_agree():
    space, network = make(0.7)
    arch, cell = space.parse(ARCHS[0]), network.stages[1]
    weights = [layer.weight.detach().requires_grad_() for layer in cell._path(arch)]
    driven = torch.randn(2, 3, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda driven, *weights: module.unrolled(driven, arch, 0.7, weights), (driven, *weights)
    )


def test_frozen_matrices_have_no_gradient():
    space, network = make()
    arch = space.parse(ARCHS[1])
    network.stages[1].nodes["1to2"].weight.requires_grad_(False)
    _, found = gradients(network, arch)
    assert "stages.1.nodes.1to2.weight" not in found and "stages.1.nodes.0to1.weight" in found


class _Listening(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.weights = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            self.weights.add(tuple(args[1].shape))
        return function(*args, **(kwargs or {}))


def test_who_listens_hears_every_product(calls):
    space, network = make()
    with _Listening() as heard:
        gradients(network, space.parse(ARCHS[0]))
    assert not calls and (12, 6) in heard.weights  # the matrices from node to node


def test_hooks_are_called(calls):
    space, network = make()
    arch, seen = space.parse(ARCHS[0]), []
    network.stages[1].nodes["0to1"].register_forward_hook(lambda *given: seen.append(1))
    gradients(network, arch)
    assert not calls and len(seen) == TIMES


def test_derivatives_by_sample_go_the_plain_way(calls):
    space, network = make()
    arch = space.parse(ARCHS[0])
    params = {name: param.detach() for name, param in network.named_parameters()}
    x, y = torch.randint(WORDS, (2, BATCH, TIMES))

    def loss(params, x, y):
        logits = torch.func.functional_call(network, params, (x[None], arch))
        return cross_entropy(logits, y[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    assert not calls and each["stages.1.from_hidden.weight"].shape == (BATCH, 12, 6)


@pytest.mark.parametrize("options", [{"weight_drop": 0.5}, {"path_dropout": 0.5}])
def test_dropped_weights_and_paths_go_the_plain_way_in_training_alone(options, calls):
    space, network = make(**options)
    arch = space.parse(ARCHS[0])
    gradients(network.train(), arch)
    assert not calls
    gradients(network.eval(), arch)
    assert calls
