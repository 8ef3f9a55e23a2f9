"""What Python shows of a part is one informative line, and a wrong type is refused with one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sample_runs import search_result
from torch import nn

import ramet
from ramet.continual import make_stream
from ramet.continual.plan import LearnPlan
from ramet.data import load
from ramet.errors import ConfigError
from ramet.fields import require_types
from ramet.guards import NoGuard, OrthogonalProjection, WeightPlasticity, chain
from ramet.params import named_params
from ramet.ranking import Plan
from ramet.searching import SearchPlan
from ramet.searching.strategies import STRATEGIES
from ramet.spaces import Cells64, Choice, Darts, ModuleSpace


def network(in_channels, num_classes):
    options = {"one": nn.Linear(in_channels, num_classes), "two": nn.Linear(in_channels, num_classes)}
    return nn.Sequential(nn.Flatten(), Choice(options))


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Cells64(channels=4, num_cells=1), "Cells64(channels=4, num_cells=1), 64 architectures"),
        (WeightPlasticity(strength=3.0), "WeightPlasticity(strength=3.0)"),
        (
            chain(WeightPlasticity(strength=3.0), OrthogonalProjection()),
            "Chain(WeightPlasticity(strength=3.0), OrthogonalProjection(",
        ),
        (NoGuard(), "NoGuard()"),
        (STRATEGIES.make("evolution", Cells64()), "Evolution(), over Cells64(), 64 architectures"),
        (load("digits", train_size=20, eval_size=10), "DataSet(digits: 10 classes, 1 x 8 x 8, 20 / 10 / 10 images"),
        (load("digits", train_size=20, eval_size=10).train, "Split(x [20, 1, 8, 8] float32, y [20] int64)"),
        (make_stream("split-digits:5"), "Stream(split-digits:5: 5 tasks, inputs of 1 x 8 x 8)"),
        (search_result({"a": 0.3, "b": 0.2}), "SearchResult(validation error 20.0 % of b)"),
        (ModuleSpace(network, in_channels=64), "ModuleSpace("),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else "",
)
def test_a_part_is_one_line(part, shown):
    assert repr(part).startswith(shown) and "\n" not in repr(part) and len(repr(part)) < 250


def test_a_space_too_large_for_len_is_shown():
    assert repr(Darts()).endswith("architectures")


def test_a_result_names_its_folder():
    from dataclasses import replace

    assert repr(replace(search_result({"a": 0.3}), folder=Path("runs/one"))).endswith("; runs/one)")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Plan(children="8"), "children must be a whole number or none, but got '8'."),
        (lambda: Plan(instances=2.5), "instances must be a whole number, but got 2.5."),
        (lambda: Plan(instances=True), "instances must be a whole number, but got True."),
        (lambda: Plan(truth=3), "truth must be a text, but got 3."),
        (lambda: SearchPlan(epochs="5"), "epochs must be a whole number, but got '5'."),
        (lambda: LearnPlan(seeds="1"), "seeds must be a whole number, but got '1'."),
    ],
)
def test_a_plan_of_wrong_types_is_one_line(make, words):
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == words


def test_numpy_numbers_and_whole_floats_are_numbers():
    import numpy as np

    require_types(Plan(children=np.int64(8), fine_tune_learning_rate=1))


@pytest.mark.parametrize("guard", [WeightPlasticity(strength=1.0), chain(WeightPlasticity(strength=1.0), NoGuard())])
def test_a_guard_is_given_parameters_by_name(guard):
    net = nn.Linear(2, 2)
    rule = r"a guard takes parameters by name, ramet.params.named_params\(network\), but got a "
    with pytest.raises(ConfigError, match=rule + "Linear"):
        guard.remember(net)
    with pytest.raises(ConfigError, match=rule + "Linear"):
        guard.remember(net, fisher=named_params(net))
    with pytest.raises(ConfigError, match=rule + "generator"), guard.step(net.parameters(), 0.1):
        pass
    with guard.step(named_params(net), 0.1):
        torch.optim.SGD(net.parameters(), lr=0.1).step()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ramet.rank(out=3), "out must be the path of a run directory, but got 3."),
        (lambda: Plan(also=3), "also must be a list of texts, NAME=VALUE each, but got 3."),
        (lambda: Plan(also="momentum=0"), "also must be a list of texts, NAME=VALUE each, but got 'momentum=0'."),
        (lambda: WeightPlasticity(strength="60"), "strength must be at least 0 and finite, but got '60'."),
        (lambda: OrthogonalProjection().watch("net").__enter__(), "a guard watches an nn.Module, but got a str."),
    ],
)
def test_a_wrong_type_is_one_line_and_no_traceback_of_ours(call, words):
    with pytest.raises(ConfigError) as refused:
        call()
    assert str(refused.value) == words
