"""Methods on any module keep what the seam promises, do what they say with trained weights, or refuse in one line."""

from __future__ import annotations

import copy
from functools import cache, partial

import pytest
import safetensors.torch
import torch
from module_networks import Layered, ResNet, Small
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.continual import METHODS, BindAndGrow, JointNetwork, Stream, Task, learn, make_method
from ramet.continual.methods.bind_and_grow.budget import choose_within
from ramet.continual.methods.individual import Individual
from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.block_graph import START
from ramet.continual.networks.making import make_template
from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.seeding import derive_seed
from ramet.testing import methods as suite
from ramet.testing.methods import METHOD_CHECKS, SETTINGS
from ramet.training import Batches, accuracy

IMAGES = {"in_channels": 1, "image_size": (5, 5), "num_classes": 3}
ON_MODULES = [name for name in METHODS if not METHODS.class_of(name).needs_chain]
# What is left of so few weights after two prunings by three quarters learns nothing.
OPTIONS = {
    "replay": {"memory": 12},
    "random-growth": {"draw": 2},
    "packnet": {"prune": 0.5},
    "firefly": {"goal": 1.0, "neurons": 4, "candidates": 3, "rounds": 1},
    "den": {"loss_threshold": 0.0, "new_units": 3},
    "rcl": {"trials": 2, "max_units": 4},
    "cpg": {"prune_step": 0.45},
}


UNITS = [name for name in METHODS if METHODS.class_of(name).needs_units]
"""Methods that add and leave out units; those that share a module by units or blocks of it are held to a ViT, too."""
ON_VITS = [*UNITS, "apd", "learn-to-grow", "progressive"]


@cache
def templates(folder, linear):
    """In place of the suite's chains: modules without batch norm, with it, and trained on patterns of its own."""
    network = trained()
    safetensors.torch.save_file(network.state_dict(), folder / "small.safetensors")
    file = str(folder / "small.safetensors")
    return {
        "linear": make_template(f"module_networks:{linear}", **IMAGES),
        "linear with batch norm": make_template("module_networks:Small", **IMAGES),
        "convolution with batch norm": make_template("module_networks:Small", **IMAGES, start=file),
    }


@cache
def trained():
    """A module whose weights come from a training on patterns of its own."""
    stream = suite.make_stream(4)
    return learn(Stream("one", stream.tasks[3:]), method="individual", network=Small, settings=SETTINGS).task("task 3")


@pytest.fixture
def on_modules(name, monkeypatch, tmp_path_factory):
    """The conformance suite, with modules in place of chains."""
    made = templates(tmp_path_factory.getbasetemp(), "TinyViT" if name in ON_VITS else "Layered")
    monkeypatch.setattr(suite, "make_skeletons", lambda: made)


QUICK = ("individual", "adapters", "replay", "packnet", "bind-and-grow", "firefly")
"""Run with the required tests, too: one of each way to share a module."""


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in ON_MODULES]
)
def test_conformance(name, check, on_modules):
    check(partial(make_method, name, **OPTIONS.get(name, {})))


def test_which_methods_take_modules():
    assert set(ON_MODULES) == {
        "individual", "separate", "warm-start", "naive", "frozen", "adapters", "joint", "elastic", "distillation",
        "replay", "packnet", "bind-and-grow", "random-growth", "apd",
        "firefly", "den", "rcl", "cpg", "learn-to-grow", "progressive",
    }  # fmt: skip


def test_methods_that_need_a_chain_say_why():
    class OfChains(Individual):
        name, needs_chain = "of-chains", "it is written for one"

    with pytest.raises(ConfigError, match=r"of-chains needs a chain of layers .* because it .*, but got a module"):
        OfChains().start(make_template(Small, **IMAGES), SETTINGS, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"old_weights": "guarded"}, "slow or frozen, not guarded"),
        ({"unit": "channels"}, "unit must be layer for a module"),
        ({"skeletons": {"task 1": "mlp"}}, "takes skeletons for single tasks beside mlp or conv"),
    ],
)
def test_options_that_a_module_has_no_counterpart_for(options, words):
    with pytest.raises(ConfigError, match=words):
        make_method("bind-and-grow", **options).start(make_template(Small, **IMAGES), SETTINGS, 0)


def test_individual_networks_fine_tune_copies_of_a_trained_one():
    network, stream = trained(), suite.make_stream(2)
    learned = learn(stream, method=make_method("individual", head_weights="fresh"), network=network, settings=SETTINGS)
    method = learned.network.method
    twin = copy.deepcopy(network)
    twin.fc = method.template.make_network(2, 0, "individual", 0).fc  # drawn by the same role
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    data, batches = stream[0].dataset.train, Batches(24, 8, derive_seed(0, "task", 0))
    twin.train()
    for step in range(18):
        optimizer.param_groups[0]["lr"] = SETTINGS.learning_rate_at(step, 18)
        optimizer.zero_grad()
        cross_entropy(twin(data.x[batches[step]]), data.y[batches[step]]).backward()
        optimizer.step()
    # 18 steps of the same operations in the same order; kernels may differ in the last bits, which steps enlarge.
    for one, other in zip(learned.task("task 0").parameters(), twin.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_a_frozen_body_stays_and_heads_are_fitted_to_what_it_gives():
    network, stream = trained(), suite.make_stream(3)
    learned = learn(stream, method="frozen", network=network, settings=SETTINGS)
    for task in stream:
        own = learned.task(task.name)
        for name, value in own.state_dict().items():
            assert name.startswith("fc.") or torch.equal(value, network.state_dict()[name]), name
        assert accuracy(own, task.dataset.test.x, task.dataset.test.y) > 0.75
    heads = sum(count_parameters(learned.task(task.name).fc) for task in stream)
    assert learned.network.num_parameters() == count_parameters(network) - count_parameters(network.fc) + heads


def test_adapters_leave_the_trained_network_alone_and_fit_the_task():
    network, stream = trained(), suite.make_stream(3)
    learned = learn(stream, method="adapters", network=network, settings=SETTINGS)
    graph = learned.network.method.graph_
    for name, value in graph.network(START).state_dict().items():
        assert name.startswith("fc.") or torch.equal(value, network.state_dict()[name]), name
    for task in stream:
        assert accuracy(learned.task(task.name), task.dataset.test.x, task.dataset.test.y) > 0.75
        assert all(step.patch is not None for step in graph.path(task.name).steps)
    assert "adapted: stem, block" in learned.network.explain()[1]


def test_bind_and_grow_stays_within_its_budget_and_forgets_nothing():
    network, stream = trained(), suite.make_stream(3)
    body = count_parameters(network) - count_parameters(network.fc)
    sizes = {}
    for budget in (0.05, 0.5, 2.0):
        method = BindAndGrow(budget=budget)
        learned = learn(stream, method=method, network=network, settings=SETTINGS)
        assert method.forgets_nothing and learned.figures()["forgetting"] == 0
        for name, value in method.graph_.network(START).state_dict().items():
            assert name.startswith("fc.") or torch.equal(value, network.state_dict()[name]), name
        for task in stream:
            head = count_parameters(learned.task(task.name).fc)
            assert method.graph_.num_parameters(task.name) - head <= max(budget * body, 48)  # batch norms in any case
        sizes[budget] = learned.network.num_parameters()
        choices = method.decisions[0]
        assert choices.delta is None and (len(choices.expanded) == 2) == (budget == 2.0)
    assert sizes[0.05] < sizes[0.5] < sizes[2.0]
    assert "was bound to 'the trained network'" in learned.network.explain()[0]


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_task_is_bound_to_the_one_that_sees_its_images_as_it_does(is_trained):
    """A probe that is the network of an earlier task has no conflict with it, block by block, and some with others."""
    stream = suite.make_stream(3, size=4)
    method = BindAndGrow(budget=0.5, old_weights="frozen")
    learn(stream, method=method, network=trained() if is_trained else Small, settings=SETTINGS)
    data = stream[1].dataset
    twin = Task("twin", data).data()
    for name in ("task 1", "task 2"):
        method.known_probes["twin"] = method.network(name)
        decision = method.decide(twin)
        assert decision.bound_to == name
        conflicts = {conflict.task: conflict for conflict in decision.conflicts}
        assert set(conflicts) == {*stream.names, *([START] if is_trained else [])}
        # Similarities of float32 features are right to about 1e-7 times their number.
        assert max(conflicts[name].layers) < 1e-4
        assert all(conflict.total > 1e-3 for task, conflict in conflicts.items() if task != name)


def test_choices_within_a_budget():
    sizes = [(1, 5, 50), (1, 20, 400), (1, 5, 50)]
    assert choose_within([0.4, 0.5, 0.1], sizes, 2) == ["share", "share", "share"]
    assert choose_within([0.4, 0.5, 0.1], sizes, 3 + 4) == ["adapt", "share", "share"]
    # Every block has an adapter before one of them is copied, however much of the conflict is its own.
    assert choose_within([0.98, 0.01, 0.01], sizes, 3 + 4 + 45) == ["adapt", "adapt", "adapt"]
    assert choose_within([0.98, 0.0, 0.02], sizes, 3 + 4 + 19 + 4) == ["adapt", "adapt", "adapt"]
    assert choose_within([0.98, 0.01, 0.01], sizes, 3 + 4 + 19 + 4 + 45) == ["own", "adapt", "adapt"]
    assert choose_within([0.4, 0.5, 0.1], sizes, 30) == ["adapt", "adapt", "adapt"]
    assert choose_within([0.4, 0.5, 0.1], sizes, 80) == ["own", "adapt", "adapt"]
    assert choose_within([0.4, 0.5, 0.1], sizes, 1000) == ["own", "own", "own"]
    assert choose_within([0.4, 0.6, 0.0], sizes, 1000) == ["own", "own", "adapt"]
    assert choose_within([1.0], [(0, 60, 50)], 50) == ["own"]  # an adapter that is larger than its block is none


def test_untrained_modules_grow_by_delta():
    stream = suite.make_stream(2)
    for delta, expanded in ((0.0, 0), (1.0, 2)):
        method = BindAndGrow(delta=delta, old_weights="frozen")
        learn(stream, method=method, network=Small, settings=SETTINGS)
        assert len(method.decisions[1].expanded) == expanded and method.decisions[1].delta == delta
    method = BindAndGrow(delta=0.0, adapt=1.0, old_weights="frozen", conv_adapter="low-rank")
    learn(stream, method=method, network=Small, settings=SETTINGS)
    assert method.decisions[1].adapted == (0, 1) and method.decisions[1].expanded == ()


def test_shared_blocks_of_an_untrained_module_are_slow():
    stream, moved = suite.make_stream(2), []
    for rate in (1e-6, 1.0):
        method = BindAndGrow(delta=0.0, old_weights="slow", old_rate=rate)
        net = learn(Stream("one", stream.tasks[:1]), method=method, network=Small, settings=SETTINGS).network
        before = net.task("task 0").stem[0].weight.detach()
        net.learn(stream[1].data())
        moved.append(float((net.task("task 0").stem[0].weight.detach() - before).abs().max()))
        assert method.decisions[1].expanded == () and not method.forgets_nothing
    # Steps are at most a millionth as long; weight decay and momentum are in both.
    assert 0 < moved[0] < 1e-3 * moved[1]


def test_parameters_that_the_user_has_frozen_stay_frozen():
    network = copy.deepcopy(trained())
    network.stem[0].weight.requires_grad_(False)
    stream = suite.make_stream(2)
    for name in ("individual", "naive", "adapters", "bind-and-grow:budget=5"):
        learned = learn(stream, method=name, network=network, settings=SETTINGS)
        made = learned.task("task 1").stem[0].weight
        assert torch.equal(made, network.stem[0].weight) or name == "adapters"  # which changes it by its own
        assert not made.requires_grad


def test_a_module_given_as_an_object_is_loaded_with_it(tmp_path):
    network, stream = trained(), suite.make_stream(2)
    for name in ("individual", "bind-and-grow", "naive"):
        learned = learn(Stream("one", stream.tasks[:1]), method=name, network=network, settings=SETTINGS)
        learned.network.save(tmp_path / "net.safetensors")
        with pytest.raises(ConfigError, match="is loaded with that object"):
            JointNetwork.load(tmp_path / "net.safetensors")
        other = Small(num_classes=9)  # of other weights, which do not count
        loaded = JointNetwork.load(tmp_path / "net.safetensors", network=other)
        for each in (learned.network, loaded):
            each.learn(stream[1].data())
        x = stream[1].dataset.test.x
        for task in stream:
            assert torch.equal(learned.network.task(task.name)(x), loaded.task(task.name)(x)), name


def test_trained_weights_that_tasks_begin_with_are_stored(tmp_path):
    network, stream = trained(), suite.make_stream(1)
    body = sum(v.numel() * v.element_size() for k, v in network.state_dict().items() if not k.startswith("fc."))
    sizes = {
        name: learn(stream, method=name, network=network, settings=SETTINGS).network for name in ("individual", "naive")
    }
    assert sizes["individual"].stored_bytes() - sizes["naive"].stored_bytes() == body


def test_a_shared_head_on_a_module():
    stream = Stream("alike", [suite.make_stream(3).tasks[place] for place in (0, 2)])
    for name in ("naive", "joint"):
        scenario = "all" if name == "joint" else "streaming"
        net = learn(stream, method=name, network=Small, head="shared", settings=SETTINGS, scenario=scenario).network
        assert torch.equal(net.task("task 0").fc.weight, net.task("task 2").fc.weight)


def test_residual_networks_and_other_depths_end_up_as_torch_exports_them(tmp_path):
    stream = suite.make_stream(2, size=3)
    for make in (partial(ResNet, width=4), Layered):
        net = learn(stream, method="adapters", network=make, settings=SETTINGS).network
        net.export("task 1", tmp_path / "task.pt2")
        x = stream[1].dataset.test.x
        given = torch.export.load(tmp_path / "task.pt2").module()(x)
        # Sums of some hundred products in another order: a few hundred roundings of 6e-8 of numbers of order ten.
        assert torch.allclose(given, net.task("task 1")(x), rtol=1e-4, atol=1e-4)
        assert isinstance(net.method.template, Backbone) and not isinstance(net.task("task 1"), nn.Sequential)
