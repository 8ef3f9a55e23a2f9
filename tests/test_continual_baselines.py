"""The growing baselines do what the formulas of their papers say: worked by hand, or against a slow twin."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from ramet.continual import make_method
from ramet.continual.layer_choices import ChoiceNetwork, expected_size, list_choices, search_choices
from ramet.errors import ConfigError
from ramet.testing import methods as suite


def learned(name, num_tasks=3, skeleton="linear", **options):
    stream = suite.make_stream()
    method = suite.started(partial(make_method, name, **options), suite.make_skeletons()[skeleton])
    for _ in range(num_tasks):
        suite.learn_next(method, stream)
    return method, stream


# Learn to grow


def search(method, data, *, learning_rate, penalty):
    choices = list_choices(method.graph_, method.skeleton, rank=1)
    network = ChoiceNetwork(method.graph_, method.skeleton, choices, 3, seed=3)
    settings = replace(suite.SETTINGS, learning_rate=learning_rate, epochs=20, weight_decay=0.0)
    shares = search_choices(network, data, settings, seed=0, choice_rate=0.05, size_penalty=penalty)
    return [options[int(share.argmax())].kind for options, share in zip(choices, shares, strict=True)], network


def test_a_search_reuses_what_is_learned_where_new_layers_are_useless():
    method, stream = learned("learn-to-grow", 1)
    old_head = method.network("task 0").head.state_dict()
    choices = list_choices(method.graph_, method.skeleton, rank=1)
    assert [[choice.kind for choice in options] for options in choices] == [["reuse", "adapt", "new"]] * 2
    network = ChoiceNetwork(method.graph_, method.skeleton, choices, 2, seed=3)
    network.head.load_state_dict(old_head)
    with torch.no_grad():
        for name, param in network.fresh.named_parameters():
            if name.split(".")[0].endswith("-2"):
                param.zero_()  # a new layer gives nothing ...
    settings = replace(suite.SETTINGS, learning_rate=1e-9, epochs=20, weight_decay=0.0)  # ... and learns nothing
    shares = search_choices(network, stream[0].dataset.train, settings, seed=0, choice_rate=0.05, size_penalty=0.0)
    for share in shares:
        assert share[2] == share.min() and share[2] < 0.25


def test_a_search_takes_new_layers_where_the_old_are_useless():
    method, _ = learned("learn-to-grow", 1)
    with torch.no_grad():
        for param in method.graph_.parameters():
            param.zero_()
    # Enough samples that the half of the choices tells what the half of the weights taught, not its noise.
    data = suite.make_stream(size=40)[1].dataset.train
    kinds, _ = search(method, data, learning_rate=0.02, penalty=0.0)
    assert kinds == ["new", "new"]


def test_a_high_price_of_parameters_makes_a_search_reuse():
    method, stream = learned("learn-to-grow", 1)
    kinds, _ = search(method, stream[1].dataset.train, learning_rate=0.1, penalty=100.0)
    assert kinds == ["reuse", "reuse"]


def test_a_search_leaves_the_old_layers_alone():
    method, stream = learned("learn-to-grow", 1, skeleton="linear with batch norm")
    before = method.graph_.to_state()["weights"]
    _, network = search(method, stream[1].dataset.train, learning_rate=0.1, penalty=0.0)
    for name, value in network.old.state_dict().items():
        assert torch.equal(value, before[f"nodes.{name}"])


def test_a_mixture_that_is_sure_of_reuse_is_the_old_network():
    method, stream = learned("learn-to-grow", 1)
    choices = list_choices(method.graph_, method.skeleton, rank=1)
    network = ChoiceNetwork(method.graph_, method.skeleton, choices, 2, seed=3)
    old, x = method.network("task 0"), stream[0].dataset.test.x
    sure = [torch.tensor([1.0, 0.0, 0.0])] * 2
    assert torch.allclose(network(x, sure), network.head(old.layer2(old.layer1(x))))
    # A map beside a layer begins at zero, so that adapting begins with reuse.
    adapted = [torch.tensor([0.0, 1.0, 0.0])] * 2
    assert torch.allclose(network(x, adapted), network(x, sure))
    # By hand: 25 x 16 + 16 and 16 x 12 + 12 new; maps of rank 1 have 25 + 16 + 16 and 16 + 12 + 12.
    halves = [torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.0, 1.0])]
    assert float(expected_size(halves, choices)) == pytest.approx((57 / 2 + 204) / (416 + 204))


def test_only_tuned_layers_move_and_less_the_more_they_are_held():
    distances = []
    for options in ({"reuse": "fixed"}, {"reuse": "tuned", "tune_strength": 1.0}, {"reuse": "tuned"}):
        method, stream = learned("learn-to-grow", 1, size_penalty=1e6, **options)
        before = method.network("task 0").state_dict()
        suite.learn_next(method, stream)
        assert {entry["choice"] for entry in method.decisions[1]} == {"reuse"}
        after = method.network("task 0").state_dict()
        distances.append(sum(float((after[name] - before[name]).square().sum()) for name in before))
    assert distances[0] == 0 < distances[1] < distances[2]


def test_convolutions_are_adapted_by_one_by_one_maps():
    method, _ = learned("learn-to-grow", 1, skeleton="convolution with batch norm")
    choices = list_choices(method.graph_, method.skeleton, rank=0)
    assert [[choice.kind for choice in options] for options in choices] == [["reuse", "adapt", "new"], ["reuse", "new"]]
    # 1 x 6 weights, 6 biases, and a batch norm of 12.
    assert choices[0][1].size == 24


def test_learn_to_grow_refuses_bad_options():
    for options in ({"reuse": "never"}, {"rank": -1}, {"size_penalty": -1.0}, {"tune_rate": 0.0}):
        with pytest.raises(ConfigError, match="must"):
            make_method("learn-to-grow", **options)
