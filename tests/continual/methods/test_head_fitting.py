"""A head is fitted to what a body gives by the recipe; tasks of a trained network begin with such heads."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from module_networks import Small
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.continual import BindAndGrow, learn, make_method
from ramet.continual.methods import head_fitting, individual
from ramet.continual.methods.adapters import Adapters
from ramet.continual.methods.head_fitting import fit_head
from ramet.continual.methods.individual import Individual
from ramet.continual.networks.block_graph import START
from ramet.continual.training import Samples
from ramet.errors import ConfigError
from ramet.testing.methods import SETTINGS, make_stream
from ramet.training import Batches, accuracy


class Body(nn.Module):
    """Batch norm, whose statistics would move in training mode; it notes how many images it is given at a time."""

    def __init__(self):
        super().__init__()
        self.norm, self.seen = nn.BatchNorm1d(6), []

    def forward(self, x):
        self.seen.append(len(x))
        return self.norm(x).relu()


def samples(count):
    generator = torch.Generator().manual_seed(0)
    return Samples(torch.randn(count, 6, generator=generator), torch.arange(count) % 3)


def test_the_head_takes_the_steps_of_the_recipe_and_the_body_none():
    data, body, head = samples(20), Body().train(), nn.Linear(6, 3)
    twin, before = copy.deepcopy(head), copy.deepcopy(body.state_dict())
    fit_head(head, body, data, SETTINGS, seed=7)
    assert body.training and all(torch.equal(value, before[name]) for name, value in body.state_dict().items())
    assert body.seen == [20]  # each image once, however many epochs
    features, batches = body.eval()(data.x).detach(), Batches(20, SETTINGS.batch_size, 7)
    optimizer = SETTINGS.make_optimizer([{"params": list(twin.parameters()), "lr": SETTINGS.learning_rate}])
    num_steps = SETTINGS.epochs * batches.steps_per_epoch
    for step in range(num_steps):
        optimizer.param_groups[0]["lr"] = SETTINGS.learning_rate_at(step, num_steps)
        optimizer.zero_grad()
        cross_entropy(twin(features[batches[step]]), data.y[batches[step]]).backward()
        optimizer.step()
    # A few dozen steps of the same operations on numbers of order one; kernels may differ in the last bits.
    assert torch.allclose(head.weight, twin.weight, atol=1e-4) and not torch.equal(head.weight, nn.Linear(6, 3).weight)


def test_some_samples_are_enough_and_go_through_the_body_in_parts(monkeypatch):
    monkeypatch.setattr(head_fitting, "SEEN_AT_ONCE", 4)
    body, taken = Body(), []
    monkeypatch.setattr(head_fitting, "train", lambda head, loss, data, *rest, **more: taken.append(data))
    fit_head(nn.Linear(6, 3), body, samples(30), SETTINGS, seed=0, most=10)
    assert body.seen == [4, 4, 2] and len(taken[0].y) == 10
    inputs = Body().eval()(samples(30).x)
    rows = [int((inputs - row).abs().sum(1).argmin()) for row in taken[0].x]
    assert rows == sorted(set(rows)) and taken[0].y.tolist() == [row % 3 for row in rows]


def trained():
    torch.manual_seed(0)
    return Small(num_classes=3)


@pytest.mark.parametrize("make", [Adapters, BindAndGrow])
def test_a_task_begins_with_a_head_that_fits_what_it_is_bound_to(make, monkeypatch):
    """The paths are not trained here, so that what a task ends with is what it would have begun with."""
    monkeypatch.setattr(make, "_train_path", lambda self, view, *rest: view.eval())
    network, stream = trained(), make_stream(2)
    reached = {}
    for start in ("fitted", "fresh"):
        method = make(head_weights=start)
        learned = learn(stream, method=method, network=network, settings=replace(SETTINGS, epochs=20))
        data = stream[1].dataset.train
        reached[start] = accuracy(learned.task("task 1"), data.x, data.y)
        for name, value in method.graph_.network(START).state_dict().items():
            assert name.startswith("fc.") or torch.equal(value, network.state_dict()[name]), name
    # Three patterns under little noise: a fitted head knows nearly all of them, one that is drawn a third.
    assert reached["fitted"] > 0.9 > reached["fresh"] + 0.2


def test_a_copy_begins_with_a_fitted_head_too(monkeypatch):
    monkeypatch.setattr(individual, "train", lambda network, *rest, **more: network.eval())
    network, stream, reached = trained(), make_stream(2), {}
    for start in ("fitted", "fresh"):
        method = Individual(head_weights=start)
        learned = learn(stream, method=method, network=network, settings=replace(SETTINGS, epochs=20))
        data, copied = stream[1].dataset.train, method.networks[1].state_dict()
        reached[start] = accuracy(learned.task("task 1"), data.x, data.y)
        assert all(torch.equal(copied[name], value) for name, value in network.state_dict().items() if "fc" not in name)
    assert reached["fitted"] > 0.9 > reached["fresh"] + 0.2


def test_networks_that_are_not_trained_begin_with_fresh_heads(monkeypatch):
    asked = []
    monkeypatch.setattr(BindAndGrow, "_fit_head", lambda self, *rest: asked.append(rest))
    stream = make_stream(2)
    learn(stream, method=BindAndGrow(old_weights="frozen"), network=Small, settings=SETTINGS)
    assert not asked
    learn(stream, method=BindAndGrow(), network=trained(), settings=SETTINGS)
    assert len(asked) == 2


def test_a_head_begins_in_one_of_two_ways():
    with pytest.raises(ConfigError, match="head_weights must be one of fitted, fresh, but got 'warm'"):
        make_method("bind-and-grow", head_weights="warm")
