"""Adapters begin at the mean of those of earlier tasks."""

from __future__ import annotations

import pytest
import torch
from module_networks import Small

from ramet.continual import Stream, learn, make_method
from ramet.continual.methods.adapters import Adapters
from ramet.continual.networks.making import make_template
from ramet.testing import methods as suite
from ramet.testing.methods import SETTINGS


@pytest.fixture(scope="module")
def template():
    """A module of convolutions and batch norms that was trained on patterns of its own."""
    others = Stream("one", suite.make_stream(4).tasks[3:])
    trained = learn(others, method="individual", network=Small, settings=SETTINGS).task("task 3")
    return make_template(trained, in_channels=1, image_size=(5, 5), num_classes=3)


def weights_of_tasks(template, monkeypatch, **options):
    """The plain networks of two tasks that were trained, and of a third one just before its training."""
    method, stream = suite.started(lambda: make_method("adapters", **options), template), suite.make_stream(3)
    suite.learn_next(method, stream)
    suite.learn_next(method, stream)
    monkeypatch.setattr(Adapters, "_train_path", lambda *args: None)
    suite.learn_next(method, stream)
    states = [method.network(f"task {place}").state_dict() for place in range(3)]
    head = list(states[0])[-1].rpartition(".")[0]
    return [{name: value for name, value in state.items() if not name.startswith(head)} for state in states]


def test_a_task_begins_at_the_mean_of_those_before_it(template, monkeypatch):
    """What stands beside a convolution is added to it, so that the mean of maps is the mean of merged weights."""
    first, second, third = weights_of_tasks(template, monkeypatch)
    assert any((first[name] - second[name]).abs().max() > 1e-3 for name in first if name.endswith("weight"))
    for name, value in third.items():
        if value.is_floating_point():
            mean = (first[name].double() + second[name].double()) / 2
            # A map, the sum with the shared weight and the mean are each rounded once, here and there.
            bound = 8 * torch.finfo(torch.float32).eps * max(1.0, first[name].abs().max(), second[name].abs().max())
            assert (value - mean).abs().max() <= bound, name


def test_it_may_begin_as_the_trained_network(template, monkeypatch):
    *_, third = weights_of_tasks(template, monkeypatch, begin="nothing")
    start = template.module.state_dict()
    assert all(torch.equal(value, start[name]) for name, value in third.items())


def test_layers_of_a_chain_begin_at_the_mean_too(monkeypatch):
    """The second task is the first with adapters: the third begins as it."""
    _, second, third = weights_of_tasks(suite.make_skeletons()["convolution with batch norm"], monkeypatch)
    assert all(torch.equal(value, second[name]) for name, value in third.items())
