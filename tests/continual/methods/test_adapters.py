"""Adapters begin at the mean of earlier tasks', beside a trained network or what the first task made of it."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from module_networks import Small
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from ramet.continual import Stream, learn, make_method
from ramet.continual.methods.adapters import Adapters
from ramet.continual.networks.block_graph import START
from ramet.continual.networks.block_weights import PointwiseMap, WholeMap
from ramet.continual.networks.making import make_template
from ramet.costs import count_parameters
from ramet.seeding import derive_seed
from ramet.testing import methods as suite
from ramet.testing.methods import SETTINGS
from ramet.training import Batches


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


def test_the_first_task_is_the_network_fine_tuned_and_what_the_others_change(template, monkeypatch):
    """A twin takes the same steps by hand, each a quarter as long as those of maps."""
    monkeypatch.setattr(Adapters, "_train_path", lambda *args: None)
    method = suite.started(
        lambda: make_method("adapters", base="first", head_weights="fresh", begin="nothing"), template
    )
    stream = suite.make_stream(2)
    suite.learn_next(method, stream)
    first, twin = method.network("task 0"), template.make_network(2, 0, "probe", "task 0")
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    data, batches = stream[0].dataset.train, Batches(24, 8, derive_seed(0, "probe", "task 0"))
    twin.train()
    for step in range(18):
        optimizer.param_groups[0]["lr"] = 0.25 * SETTINGS.learning_rate_at(step, 18)
        optimizer.zero_grad()
        cross_entropy(twin(data.x[batches[step]]), data.y[batches[step]]).backward()
        optimizer.step()
    # 18 steps of the same operations in the same order; kernels may differ in the last bits, which steps enlarge.
    for one, other in zip(first.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    assert START not in method.graph_.paths and method.num_parameters() == count_parameters(first)
    suite.learn_next(method, stream)
    second = method.network("task 1").state_dict()
    assert all(torch.equal(second[name], value) for name, value in first.state_dict().items() if "fc" not in name)


def whole_maps(method, task):
    """The changes of the convolutions that are a task's own, and of its other maps, by name."""
    patches = [method.graph_.nodes[step.patch] for step in method.graph_.path(task).steps]
    maps = {name: made for patch in patches for name, made in patch.maps_by_name().items()}
    whole = {name: made.change for name, made in maps.items() if isinstance(made, WholeMap)}
    return whole, {name: made.beside for name, made in maps.items() if isinstance(made, PointwiseMap)}


def test_what_maps_leave_of_the_budget_makes_the_smallest_convolutions_the_tasks_own(template):
    """Of all budgets each gives the convolutions that add least, and no more of them than it has parameters for."""
    body, counts = sum(template.layer_sizes()), []
    for budget in (0.0, 0.3, 0.6, 1.0):
        method = suite.started(lambda budget=budget: make_method("adapters", base="first", budget=budget), template)
        stream = suite.make_stream(2)
        suite.learn_next(method, stream)
        suite.learn_next(method, stream)
        whole, others = whole_maps(method, "task 1")
        head = count_parameters(method.graph_.nodes[method.graph_.path("task 1").head])
        added, weights = method.graph_.num_parameters("task 1") - head, method.network("task 1").state_dict()
        extra = {name: weights[name].numel() - weights[name][:, :, 0, 0].numel() for name in (*whole, *others)}
        assert not whole or added <= budget * body
        if others:
            assert max((extra[name] for name in whole), default=0) <= min(extra[name] for name in others)
            assert added + min(extra[name] for name in others) > budget * body, "the next one would not have fitted"
        counts.append(len(whole))
    assert counts == sorted(counts) and counts[0] == 0 < counts[-1]


def test_whole_convolutions_take_smaller_steps(template):
    """With a millionth of the rate they hardly move, and maps do."""
    options = {"base": "first", "budget": 0.6, "whole_rate": 1e-6, "begin": "nothing"}
    method, stream = suite.started(lambda: make_method("adapters", **options), template), suite.make_stream(2)
    suite.learn_next(method, stream)
    suite.learn_next(method, stream)
    whole, others = whole_maps(method, "task 1")
    assert 0 < max(change.abs().max() for change in whole.values()) < 1e-4
    assert max(change.abs().max() for change in others.values()) > 1e-3


PROMISES = ("check_nothing_is_forgotten", "check_a_saved_network_takes_a_new_task", "check_it_goes_on_after_a_kill")


@pytest.mark.parametrize("promise", PROMISES)
def test_what_methods_promise_beside_a_first_task_that_trained_the_network(promise, template, monkeypatch, tmp_path):
    file = tmp_path / "trained.safetensors"
    save_file(template.module.state_dict(), file)
    images = {"in_channels": 1, "image_size": (5, 5), "num_classes": 3}
    named = make_template("module_networks:Small", **images, start=str(file))  # which a saved network finds again
    monkeypatch.setattr(suite, "make_skeletons", lambda: dict.fromkeys(("linear", "linear with batch norm"), named))
    getattr(suite, promise)(partial(make_method, "adapters", base="first", budget=0.6))


def test_layers_of_a_chain_begin_at_the_mean_too(monkeypatch):
    """The second task is the first with adapters: the third begins as it."""
    _, second, third = weights_of_tasks(suite.make_skeletons()["convolution with batch norm"], monkeypatch)
    assert all(torch.equal(value, second[name]) for name, value in third.items())
