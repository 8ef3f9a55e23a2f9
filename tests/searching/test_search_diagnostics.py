"""What a search spends on looking at itself: one pass a measurement, no gradients for nothing, no whole copies."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.data import load
from ramet.errors import ConfigError
from ramet.guards import GUARDS, make_guard
from ramet.ranking import SupernetSetup
from ramet.searching import Search, SearchPlan
from ramet.searching.measures import batch_statistics
from ramet.searching.undoing import Undo
from ramet.spaces import Cells64, Darts, NasBench201
from ramet.spaces.own.module_space import Choice, ModuleSpace
from ramet.training import Settings, evaluating, set_training, training_modes

PLAN = SearchPlan(
    epochs=2,
    warmup_epochs=1,
    models_per_epoch=5,
    batches_per_model=2,
    strategy="random",
    strategy_steps=1,
    archs_per_step=2,
    reward_samples=8,
    error_samples=12,
    num_candidates=2,
)


@pytest.fixture(scope="module")
def setup():
    data = load("digits", train_size=40, eval_size=16)
    return SupernetSetup(Cells64(channels=2, num_cells=1), data, Settings(epochs=1, batch_size=8, learning_rate=0.05))


def own(in_channels, num_classes):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3),
        nn.BatchNorm2d(4),
        Choice({"plain": nn.ReLU(inplace=True), "wide": nn.Conv2d(4, 4, 3, padding=1)}),
        Choice({"average": nn.AdaptiveAvgPool2d(2), "largest": nn.AdaptiveMaxPool2d(2)}),
        nn.Flatten(),
        nn.Linear(16, num_classes),
    )


def searched(setup, plan, change=lambda loop: None):
    records = {}
    loop = Search(setup, plan, record=lambda key, **fields: records.__setitem__(key, fields))
    change(loop)
    loop.run()
    return loop, records


@pytest.mark.parametrize(
    ("guard", "batch_norm", "passes"),
    # An epoch's children are forwarded after their turn and at its end; with other statistics than the batch's, outputs
    # are taken apart. A penalty takes gradients on a validation mini-batch of 8.
    [("none", "batch", 2), ("projection", "batch", 2), ("plasticity:towards=mean", "batch", 2), ("none", "running", 4)],
)
def test_images_are_forwarded_once_a_measurement(guard, batch_norm, passes, setup):
    seen = {"stem": 0, "head": 0, "remembered": 0}

    def count(loop):
        def counted(name, stage):
            forward = stage.forward

            def call(x, arch):
                if torch.is_inference_mode_enabled():
                    seen[name] += len(x) if len(x) == PLAN.error_samples else 0
                elif name == "head" and not loop.network.training:
                    seen["remembered"] += len(x)
                return forward(x, arch)

            stage.forward = call

        counted("stem", loop.network.stages[0])
        counted("head", loop.network.stages[-1])

    searched(setup, replace(PLAN, guard=guard, batch_norm=batch_norm), count)
    measurements = passes * PLAN.models_per_epoch - (batch_norm == "batch")  # the last child of an epoch only once
    assert seen["head"] == measurements * PLAN.error_samples * PLAN.epochs
    # By the batch's own statistics, the stem has seen the images once for all second measurements.
    stems = PLAN.models_per_epoch + 1 if batch_norm == "batch" else measurements
    assert seen["stem"] == stems * PLAN.error_samples * PLAN.epochs
    wants_fisher = guard.startswith("plasticity")
    assert seen["remembered"] == (8 * PLAN.models_per_epoch if wants_fisher else 0)


@pytest.mark.parametrize(
    ("space", "sharing"),
    [
        *itertools.product(["cells64", "nasbench201", "darts", "own"], ["full", "groups:2:similar"]),
        ("cells64", "prefix:1"),
    ],
)
def test_children_measured_together_are_those_measured_one_by_one(space, sharing, monkeypatch):
    data = load("digits", train_size=40, eval_size=16)
    spaces = {
        "cells64": Cells64(channels=2, num_cells=1),
        "nasbench201": NasBench201(channels=2, cells_per_stage=1),
        "darts": Darts(channels=2, num_cells=2, num_nodes=2),
        "own": ModuleSpace(own, in_channels=1, num_classes=10),
    }
    setup = SupernetSetup(spaces[space], data, Settings(epochs=1, batch_size=8, learning_rate=0.05))
    plan = replace(PLAN, sharing=sharing, models_per_epoch=6, measured_models=4)
    _, together = searched(setup, plan)
    with monkeypatch.context() as patched:
        patched.setattr(Search, "_measures_together", False)
        _, alone = searched(setup, plan)
    assert together == alone
    assert sum(error is not None for error in alone["epoch/1"]["err2"]) == 4


@pytest.mark.parametrize("guard", ["none", "projection", "plasticity:towards=mean"])
def test_the_last_child_of_an_epoch_would_be_measured_the_same_again(guard, setup):
    loop, records = searched(setup, replace(PLAN, guard=guard))
    last = records[f"epoch/{PLAN.epochs - 1}"]
    score, _ = loop._error(setup.space.parse(last["archs"][-1]))
    assert score.error == last["err1"][-1] == last["err2"][-1]


def test_outputs_of_the_error_are_those_of_a_pass_of_their_own(setup):
    loop, _ = searched(setup, PLAN)
    arch, x = setup.space[27], setup.data.validation.x[: PLAN.error_samples]
    score, logits = loop._error(arch)
    with batch_statistics(loop.network):
        expected = loop.network(x, arch)
    assert torch.equal(logits, expected)
    assert score.error == float((expected.argmax(1) != setup.data.validation.y[:12]).double().mean())


@pytest.mark.parametrize("tracks", [True, False])
def test_measured_batches_leave_nothing_in_batch_norms_whatever_their_values(tracks):
    norm = nn.BatchNorm1d(2, track_running_stats=tracks)
    norm(torch.arange(8.0).reshape(4, 2))
    before = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    x = torch.tensor([[1.0, 5.0], [3.0, 6.0]])
    with batch_statistics(norm):
        assert torch.equal(norm(x), nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True))
        norm(torch.full((3, 2), float("nan")))  # a child that has diverged
    assert all(torch.equal(buffer, before[name]) for name, buffer in norm.named_buffers())
    assert norm.training and norm.track_running_stats is tracks and norm.momentum == 0.1


def test_projection_learns_the_same_without_gradients_on_validation_images(setup):
    plan = replace(PLAN, guard="projection", warmup_epochs=0)
    quick, records = searched(setup, plan)
    slow, expected = searched(setup, plan, lambda loop: setattr(loop.guard, "needs_gradients", True))
    assert records == expected
    state = slow.guard.state_dict()
    assert state.keys() == quick.guard.state_dict().keys()
    assert all(torch.equal(value, state[name]) for name, value in quick.guard.state_dict().items())


@pytest.mark.parametrize("name", GUARDS.names())
def test_guards_that_need_no_gradients_do_not_look_at_them(name):
    """The path alone must give the same memory: gradients of other sizes change nothing."""
    guard = make_guard(name, warmup_epochs=0)
    layer, states = nn.Linear(3, 2), []
    for size in (1.0, 5.0):
        one = copy.deepcopy(guard)
        with one.watch(layer):
            layer(torch.arange(6.0).reshape(2, 3)).sum().backward()
        for param in layer.parameters():
            param.grad = torch.full_like(param, size)
        one.remember(dict(layer.named_parameters()))
        states.append(one.state_dict())
    same = all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert same == (not guard.needs_gradients)


def test_measuring_some_children_changes_nothing_else(setup):
    whole, full = searched(setup, PLAN)
    part, some = searched(setup, replace(PLAN, measured_models=2))
    for key, record in some.items():
        measured = [unit for unit, error in enumerate(record["err1"]) if error is not None]
        assert measured == [2, 4]
        for field in ("err1", "err2"):
            assert [record[field][unit] for unit in measured] == [full[key][field][unit] for unit in measured]
        differences = [full[key]["err2"][unit] - full[key]["err1"][unit] for unit in measured]
        assert record["difference_mean"] == pytest.approx(sum(differences) / 2)
        for field in ("archs", "loss", "reward", "diverged"):
            assert record[field] == full[key][field]
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, part.network.state_dict()[name])


def test_no_child_may_be_measured(setup):
    _, records = searched(setup, replace(PLAN, measured_models=0))
    assert records["epoch/1"]["difference_mean"] is None and records["epoch/1"]["err2"] == [None] * 5
    with pytest.raises(ConfigError, match="between 0 and the 5 models of an epoch, but got 6"):
        replace(PLAN, measured_models=6)


def test_a_child_that_breaks_the_weights_is_put_back_though_it_is_not_measured(setup):
    # In its last mini-batch, after which no loss of its own tells.
    loop, _ = searched(setup, replace(PLAN, measured_models=0, batches_per_model=1))
    loop._begin(0)
    before = copy.deepcopy(loop.network.state_dict())
    step, broken = loop._step, []

    def breaking(*arguments, **options):
        loss = step(*arguments, **options)
        with torch.no_grad():
            broken.append(next(param for param in loop._params.values() if param.grad is not None))
            broken[-1].view(-1)[0] = float("inf")
        return loss

    loop._step = breaking
    loop._train_child(0, 0)
    assert loop._log["diverged"] == [True] and len(broken) == 1
    assert all(torch.equal(value, before[name]) for name, value in loop.network.state_dict().items())


class Decaying(torch.optim.SGD):
    """An optimizer of one's own: it moves all parameters, also those without a gradient."""

    def step(self, closure=None):
        super().step(closure)
        with torch.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    param.mul_(0.9)


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD, Decaying])
def test_the_last_good_state_is_a_copy_of_all(make):
    """Against copies of everything: good turns on several paths, then a bad one that is taken back."""
    torch.manual_seed(0)
    paths = [nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)) for _ in range(3)]
    network = nn.ModuleList(paths)
    options = {} if make is torch.optim.AdamW else {"momentum": 0.9}
    optimizer = make(network.parameters(), lr=0.1, **options)
    undo = Undo(network, optimizer)

    def turn(which):
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            paths[which](torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
            undo.note()

    def everything():
        weights = {name: value.clone() for name, value in network.state_dict().items()}
        return weights, copy.deepcopy(optimizer.state_dict()["state"])

    def check(expected):
        weights, state = everything()
        assert all(torch.equal(value, expected[0][name]) for name, value in weights.items())
        assert state.keys() == expected[1].keys()
        for key, own in state.items():
            assert all(torch.equal(torch.as_tensor(own[n]), torch.as_tensor(expected[1][key][n])) for n in own)

    at_first = everything()
    turn(0)
    undo.restore()
    check(at_first)
    for which in (0, 1, 0):
        turn(which)
        undo.keep()
    good = everything()
    for which in (1, 2, 1):  # and again: what was put back must not be what later steps change
        turn(which)
        undo.restore()
        check(good)


class Frozen(nn.Module):
    """Stays in evaluation mode."""

    def train(self, mode=True):
        return super().train(False)


def test_modes_are_set_as_torch_sets_them():
    plain = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout().eval()))
    scripted = torch.jit.script(nn.Sequential(nn.Dropout()))
    for network in (plain, nn.Sequential(plain, Frozen()), nn.Sequential(scripted)):
        for mode in (True, False, True):
            with training_modes(network):
                network.train(mode)
                expected = [module.training for module in network.modules()]
            set_training(network, mode)
            assert [module.training for module in network.modules()] == expected
        network.train()
        before = [module.training for module in network.modules()]
        with evaluating(network):
            assert not any(module.training for module in network.modules())
        assert [module.training for module in network.modules()] == before
