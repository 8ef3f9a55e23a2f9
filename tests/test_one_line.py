"""What Python shows of a part is one informative line, and a wrong type is refused with one."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sample_runs import search_result
from torch import nn

import ramet
from ramet.continual import make_stream
from ramet.continual.plan import LearnPlan
from ramet.continual.streams.makers import FORMS
from ramet.continual.study.plan import StudyPlan
from ramet.data import load
from ramet.errors import ConfigError, RametError
from ramet.fields import require_types
from ramet.growth import Budget, GrowPlan
from ramet.growth.budget import Ends
from ramet.guards import GUARDS, NoGuard, OrthogonalProjection, WeightPlasticity, chain, remember_batches
from ramet.params import named_params
from ramet.ranking import Plan
from ramet.registry import registry_of
from ramet.searching import SearchPlan
from ramet.searching.staged.options import StagedOptions
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


def small_network():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


@pytest.mark.parametrize(
    ("provoke", "words"),
    [
        (
            lambda: ramet.rank("cells64", "digits", guard="plasticity"),
            "guard is an option of the plan, plan=Plan(guard=...), and not of the data.",
        ),
        (
            lambda: ramet.search("cells64", "digits", minutes=5),
            "minutes is an option of the plan, plan=SearchPlan(staged=StagedOptions(minutes=...)), "
            "and not of the data.",
        ),
        (
            lambda: ramet.grow("mlp", "digits", method="firefly"),
            "method is an option of the plan, plan=GrowPlan(methods=...), and not of the data.",
        ),
        (
            lambda: ramet.learn("split-digits:5", learning_rate=0.1),
            "learning_rate is an option of the recipe, recipe=Recipe(learning_rate=...), and not of the data.",
        ),
        (
            lambda: ramet.study("split-digits:5", train_sise=10),
            "options by name must be options of the data, data_dir, image_size, train_size, eval_size, "
            "validation_fraction, pool, test_fraction, seed, but got 'train_sise'; did you mean train_size?",
        ),
        (
            lambda: ramet.rank(small_network(), "digits"),
            "a space must be a name, FILE.py:function or a Space, but got a Sequential.",
        ),
        (
            lambda: ramet.rank(Cells64, "digits"),
            "a space must be a name, FILE.py:function or a Space, but got the class Cells64.",
        ),
        (
            lambda: ramet.rank("cells64", "digits", executor="mars"),
            "executor must be an Executor or a number of worker processes, but got 'mars'.",
        ),
        (lambda: Cells64()["first"], "an architecture's place is a whole number, but got 'first'."),
        (
            lambda: ramet.ranking.top_n_rank([1, 2, 3], [1, 2, 3], "2"),
            "n must be a whole number between 1 and the 3 children, but got '2'.",
        ),
        (lambda: chain(7), "a chain is made of guards, but got 7."),
        (lambda: load("digits", seed="x"), "seed must be a whole number, but got 'x'."),
        (
            lambda: ramet.growth.grow(small_network(), "digits", "params=1k"),
            "data must be (x, y, validation_x, validation_y) or what ramet.data.load gives, but got a str.",
        ),
    ],
)
def test_what_is_natural_to_try_is_answered_with_one_line(provoke, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RametError) as refused:
        provoke()
    assert str(refused.value) == words and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("provoke", "words"),
    [
        (lambda: GrowPlan(methods=7), "methods must be texts, joined by commas or in a list, but got 7."),
        (lambda: GrowPlan(against=3), "against must be texts, joined by commas or in a list, but got 3."),
        (lambda: GrowPlan(budget=100), "budget must be a text or none or an object of Budget, but got 100."),
        (lambda: GrowPlan(ends="late"), "ends must be an object of Ends, but got 'late'."),
        (lambda: GrowPlan(onnx="yes"), "onnx must be true or false, but got 'yes'."),
        (lambda: Ends(max_steps="3"), "max_steps must be a whole number or none, but got '3'."),
        (lambda: Budget("params", "200k"), "total must be a number, but got '200k'."),
        (lambda: SearchPlan(staged="5 minutes"), "staged must be an object of StagedOptions, but got '5 minutes'."),
        (lambda: SearchPlan(final_network=8), "final_network must be an object of FinalNetworkOptions, but got 8."),
        (lambda: StagedOptions(minutes="5"), "minutes must be a number or none, but got '5'."),
        (lambda: StudyPlan(space="wide"), "space must be an object of SequenceSpace, but got 'wide'."),
        (lambda: LearnPlan(rates=0.1), "rates must be numbers, joined by commas or in a list, but got 0.1."),
        (lambda: make_stream(5), f"a stream must be {FORMS}, but got 5."),
        (
            lambda: ramet.continual.learn("split-digits:2"),
            "a stream must be a Stream, as make_stream gives it, but got 'split-digits:2'.",
        ),
        (
            lambda: ramet.growth.grow(small_network(), load("digits", train_size=20, eval_size=10), 3),
            "a budget is a Budget or a text such as 'params=200k', but got 3.",
        ),
        (lambda: named_params("net"), "parameters are those of an nn.Module, but got a str."),
        (
            lambda: OrthogonalProjection(regularisation="1"),
            "regularisation must be at least 0 and finite, but got '1'.",
        ),
    ],
)
def test_a_part_of_a_wrong_type_is_refused_where_it_is_given(provoke, words):
    with pytest.raises(ConfigError) as refused:
        provoke()
    assert str(refused.value) == words


@pytest.mark.parametrize("name", [name for name in GUARDS.names() if name != "none"])
def test_a_guard_refuses_what_is_no_step_size_no_module_and_no_state(name):
    guard, net = GUARDS.make(name), nn.Linear(2, 2)
    params, optimizer = named_params(net), torch.optim.SGD(net.parameters(), lr=0.1)
    rule = r"a step size is the learning rate or ramet.guards.step_sizes\(optimizer, params\), but got "
    for given, shown in [(optimizer, "a SGD"), ("0.1", "'0.1'"), (None, "None"), ([0.1], r"\[0.1\]"), (True, "True")]:
        with pytest.raises(ConfigError, match=rule + shown):
            guard.step(params, given)
    for given in (0.1, np.float32(0.1), torch.tensor(0.1), ramet.guards.step_sizes(optimizer, params)):
        guard.step(params, given)
    with pytest.raises(ConfigError, match=r"watches an nn\.Module, but got a dict"), guard.watch(params):
        pass
    for given, shown in (("fisher", "a str"), (None, "a NoneType"), (["weight"], "a list")):
        with pytest.raises(ConfigError, match=f"a guard's state is tensors by name, but got {shown}"):
            guard.load_state_dict(given)


def test_what_a_guard_remembers_is_tensors_of_the_parameters_shapes():
    guard, net = WeightPlasticity(strength=1.0), nn.Linear(2, 2)
    with pytest.raises(ConfigError, match="but 'weight' is a int"):
        guard.remember({"weight": 1})
    with pytest.raises(ConfigError, match="Fisher information comes by name, but got a Linear"):
        guard.remember(named_params(net), net)
    wrong = {name: torch.zeros(1) for name in named_params(net)}
    with pytest.raises(ConfigError, match=r"'weight' has \(2, 2\) and its Fisher information \(1,\)"):
        guard.remember(named_params(net), wrong)


def test_a_step_size_is_missed_by_name():
    guard, net = WeightPlasticity(strength=1.0), nn.Linear(2, 2)
    net(torch.ones(1, 2)).sum().backward()
    guard.remember(named_params(net))
    rule = "there must be a step size for each parameter, but 'bias' has none"
    with pytest.raises(ConfigError, match=rule), guard.step(named_params(net), {"weight": 0.1}):
        pass


def test_a_batch_without_targets_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="a mini-batch is a pair, inputs and targets, but got a Tensor"):
        remember_batches(WeightPlasticity(strength=1.0), nn.Linear(2, 2), [torch.ones(3, 2)])


@pytest.mark.parametrize("kind", ["growth", "sharing"])
def test_growths_and_sharings_are_one_line(kind):
    for name in registry_of(kind).names():
        with contextlib.suppress(ConfigError):  # some need an option
            assert re.fullmatch(r"\w+\(.*\)", repr(registry_of(kind).make(name)))


def test_a_guard_on_an_optimizer_is_one_line():
    net = nn.Linear(2, 2)
    attached = ramet.guards.attach(WeightPlasticity(strength=3.0), net, torch.optim.SGD(net.parameters(), lr=0.1))
    assert repr(attached) == "Attachment(WeightPlasticity(strength=3.0), on 2 parameters)"
