"""Under any optimizer the implicit penalty comes to rest at the minimum of loss and penalty."""

from __future__ import annotations

import pytest
import torch
from torch import nn, optim

from ramet.guards import ElasticConsolidation, KroneckerPlasticity, WeightPlasticity, step_sizes
from ramet.guards.interaction import eigenbasis, interaction_gradient, proximal_in_metric, proximal_interaction
from ramet.training.recipe import Recipe
from ramet.training.step import Step

ALPHA = 5.0
START, GOAL, ANCHOR = ([3.0, -1.0, 0.5], [4.0, -3.0, 1.0], [2.0, 0.0, 0.0])
CURVATURE, FISHER = ([1.0, 2.0, 0.3], [0.1, 0.5, 2.0])


def vector(values):
    return torch.tensor(values, dtype=torch.float64)


def loss(weight):
    """A quadratic; alone it has its minimum at the goal."""
    return (vector(CURVATURE) * (weight - vector(GOAL)).square()).sum() / 2


def rested(make, guard, steps=800):
    weight = nn.Parameter(vector(ANCHOR))
    guard.remember({"w": weight}, {"w": vector(FISHER)})
    weight.data.copy_(vector(START))
    optimizer = make([weight])
    sizes = step_sizes(optimizer, {"w": weight})
    for _ in range(steps):
        optimizer.zero_grad()
        loss(weight).backward()
        with guard.step({"w": weight}, sizes):
            optimizer.step()
    return weight.detach()


OPTIMIZERS = {
    "sgd": optim.SGD,
    "momentum": lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9),
    "dampened": lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9, dampening=0.5),
    "nesterov": lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9, nesterov=True),
    "adam": optim.Adam,
    "amsgrad": lambda p, lr: optim.Adam(p, lr=lr, amsgrad=True),
    "adamw": lambda p, lr: optim.AdamW(p, lr=lr, weight_decay=0.0),
    "nadam": optim.NAdam,
    "radam": optim.RAdam,
    "adamax": optim.Adamax,
    "rmsprop": optim.RMSprop,
    "rmsprop-momentum": lambda p, lr: optim.RMSprop(p, lr=lr, momentum=0.9, alpha=0.9),
}


@pytest.mark.parametrize("rate", [pytest.param(0.03, marks=pytest.mark.slow), 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_rest_is_the_minimum_of_loss_and_penalty(name, rate):
    weight = rested(lambda params: OPTIMIZERS[name](params, lr=rate), WeightPlasticity(ALPHA))
    pulls = ALPHA * vector(FISHER)
    exact = (vector(CURVATURE) * vector(GOAL) + pulls * vector(ANCHOR)) / (vector(CURVATURE) + pulls)
    torch.testing.assert_close(weight, exact, rtol=0, atol=1e-6)


def hugging_face(params, lr):
    pytest.importorskip("transformers")
    from transformers.optimization import Adafactor

    return Adafactor(params, lr=3 * lr, scale_parameter=False, relative_step=False, warmup_init=False)


@pytest.mark.parametrize("make", [optim.Adafactor, hugging_face])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_adafactor_rests_near_the_minimum_of_loss_and_penalty(make, shape):
    """Its step falls with the weights, and never comes to rest: it is as near as its last step is long."""
    weight, guard = nn.Parameter(vector(ANCHOR).reshape(shape)), WeightPlasticity(ALPHA)
    guard.remember({"w": weight}, {"w": vector(FISHER).reshape(shape)})
    weight.data.copy_(vector(START).reshape(shape))
    optimizer = make([weight], lr=0.004)
    sizes = step_sizes(optimizer, {"w": weight})
    for _ in range(400):
        optimizer.zero_grad()
        loss(weight.reshape(-1)).backward()
        with guard.step({"w": weight}, sizes):
            optimizer.step()
    pulls = ALPHA * vector(FISHER)
    exact = (vector(CURVATURE) * vector(GOAL) + pulls * vector(ANCHOR)) / (vector(CURVATURE) + pulls)
    torch.testing.assert_close(weight.detach().reshape(-1), exact, rtol=0, atol=0.01)


@pytest.mark.parametrize("rate", [0.03, 0.1])
def test_a_decay_of_the_optimizer_is_in_the_balance(rate):
    """AdamW shrinks a weight by lr x decay in each step, whatever the gradient: g + pull + decay |g| theta = 0."""
    make = {
        "adamw": lambda params: optim.AdamW(params, lr=rate, weight_decay=0.1, betas=(0.9, 0.9)),
        "sgd": lambda params: optim.SGD(params, lr=rate, weight_decay=0.1),
    }
    for name, optimizer in make.items():
        weight = rested(optimizer, ElasticConsolidation(ALPHA, form="implicit"))
        gradient = vector(CURVATURE) * (weight - vector(GOAL))
        pull = ALPHA * vector(FISHER) * (weight - vector(ANCHOR))
        decay = 0.1 * weight * (gradient.abs() if name == "adamw" else 1.0)
        torch.testing.assert_close(gradient + pull + decay, vector([0.0] * 3), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_whole_layers_rest_at_the_minimum_of_loss_and_penalty(kind):
    generator = torch.Generator().manual_seed(0)
    x, g, goal = (torch.randn(*shape, generator=generator).double() for shape in ((5, 3), (5, 2), (2, 4)))
    layer, guard = nn.Linear(3, 2).double(), KroneckerPlasticity(2.0)
    with guard.watch(layer):
        ((layer(x) * g).sum() / 5).backward()
    guard.remember(dict(layer.named_parameters()))
    anchor = torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach()
    optimizer = (
        optim.SGD(layer.parameters(), lr=0.1, momentum=0.5)
        if kind == "sgd"
        else optim.Adam(layer.parameters(), lr=0.02)
    )
    params = dict(layer.named_parameters())
    sizes = step_sizes(optimizer, params)
    for _ in range(800):
        optimizer.zero_grad()
        (torch.cat([layer.weight, layer.bias[:, None]], dim=1) - goal).square().sum().div(2).backward()
        with guard.step(params, sizes):
            optimizer.step()
    moved = torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach() - anchor
    inputs = torch.cat([x, torch.ones(5, 1)], dim=1).double()
    a, b = inputs.mT @ inputs / 5, g.mT @ g / 5
    exact = torch.linalg.solve(torch.eye(8).double() + 2.0 * torch.kron(b, a), (goal - anchor).reshape(-1)).reshape(
        2, 4
    )
    torch.testing.assert_close(moved, exact, rtol=0, atol=1e-6)


def test_the_step_in_a_metric_solves_its_equation():
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(2, *shape, generator=generator).double() for shape in ((4, 6), (3, 5), (3, 4), (3, 4))]
    inputs, outputs, start, strengths = draws[0] @ draws[0].mT, draws[1] @ draws[1].mT, draws[2], draws[3].square()
    solved = proximal_in_metric(start, inputs, outputs, strengths, torch.zeros_like(start), num_steps=60)
    torch.testing.assert_close(solved + strengths * interaction_gradient(solved, inputs, outputs), start)
    alike = proximal_in_metric(start, inputs, outputs, torch.full_like(start, 0.7), start, num_steps=60)
    torch.testing.assert_close(alike, proximal_interaction(start, eigenbasis(inputs, outputs), 0.7))
    # However strong, each step comes nearer, and the solution itself is left where it is.
    heights = []
    for num_steps in (0, 1, 5, 20):
        v = proximal_in_metric(start, inputs, outputs, 1e8 * strengths, start, num_steps=num_steps)
        distance, penalty = (v - start).square() / (1e8 * strengths), v * interaction_gradient(v, inputs, outputs)
        heights.append(float(distance.sum() + penalty.sum()))
    assert heights == sorted(heights, reverse=True) and heights[-1] < 0.1 * heights[0]
    v = torch.full_like(start, 0.3)
    at_rest = v + strengths * interaction_gradient(v, inputs, outputs)
    found = proximal_in_metric(at_rest, inputs, outputs, strengths, v, num_steps=3)
    torch.testing.assert_close(found, v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.05, momentum=0.9), lambda p: optim.Adam(p, lr=0.05)])
def test_the_one_step_of_all_trainings_tells_the_guard(make):
    """``training.Step`` gives a guard what the optimizer does, whichever it is."""
    network = nn.ParameterDict({"w": nn.Parameter(vector(ANCHOR))})
    guard = WeightPlasticity(ALPHA)
    guard.remember(dict(network.named_parameters()), {"w": vector(FISHER)})
    network["w"].data.copy_(vector(START))
    step = Step(network, make(list(network.parameters())), Recipe())
    for number in range(800):
        step(number, 0.05, lambda x: loss(network["w"]), torch.zeros(1), guard=guard)
    pulls = ALPHA * vector(FISHER)
    exact = (vector(CURVATURE) * vector(GOAL) + pulls * vector(ANCHOR)) / (vector(CURVATURE) + pulls)
    torch.testing.assert_close(network["w"].detach(), exact, rtol=0, atol=1e-6)
