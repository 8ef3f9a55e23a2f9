"""Every method learns by any recipe: its loss, augmentation, average and compilation; or says why it does not."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.continual import METHODS, LearnRecipe, make_method, train
from ramet.continual.methods.shared_body import Minibatch
from ramet.continual.training import Samples, classification
from ramet.errors import ConfigError
from ramet.seeding import torch_generator
from ramet.testing import methods as suite
from ramet.testing.methods import SETTINGS
from ramet.training import Batches
from ramet.training.augmentation import noise

# What a chain of few weights learns nothing with is in the suite of each method; here as there.
OPTIONS = {"replay": {"memory": 12}, "random-growth": {"draw": 2}}
RICH = replace(
    SETTINGS,
    loss="cross-entropy:smoothing=0.1",
    augment="flip+noise:0.05",
    average="ema:0.8",
    schedule="one-cycle",
    warmup=0.1,
)
OWN_STEPS = ("den", "apd", "cpg", "learn-to-grow")
"""Methods that step by an SGD of their own, which is not averaged."""


def recipe_of(name):
    return replace(RICH, average=None) if name in OWN_STEPS else RICH


QUICK = ("individual", "adapters", "firefly", "den")
"""Run with the required tests, too: one that shares nothing, one of a graph, one that grows, one of own steps."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_every_method_learns_by_a_rich_recipe_forgets_no_more_and_resumes(name, monkeypatch):
    monkeypatch.setattr(suite, "SETTINGS", recipe_of(name))
    make = partial(make_method, name, **OPTIONS.get(name, {}))
    suite.check_it_goes_on_after_a_kill(make)
    suite.check_nothing_is_forgotten(make)


@pytest.mark.parametrize("name", OWN_STEPS)
def test_methods_with_steps_of_their_own_refuse_other_optimizers_and_averages(name):
    stream = suite.make_stream(2, size=3)
    for changes in ({"average": "ema"}, {"optimizer": "adamw", "learning_rate": 1e-3}):
        method = make_method(name)
        method.start(suite.make_skeletons()["linear"], replace(SETTINGS, **changes), 0)
        with pytest.raises(ConfigError, match="because the method steps by an SGD of its own"):
            for _ in stream:
                suite.learn_next(method, stream)


def test_a_recipe_is_followed_as_a_loop_by_hand_follows_it():
    data, recipe = suite.make_stream(1)[0].dataset.train, replace(RICH, average="tail:0.5")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(25, 3)).double()
    twin = copy.deepcopy(network)
    data = Samples(data.x.double(), data.y)
    train(network, classification(network, data, recipe)[0], data, recipe, seed=5)

    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    batches = Batches(len(data.y), recipe.batch_size, 5)
    num_steps = recipe.epochs * batches.steps_per_epoch
    kept = []
    for step in range(num_steps):
        generator = torch_generator(5, "transform", step)
        x = data.x[batches[step]]
        mirrored = torch.rand(len(x), generator=generator) < 0.5
        x = torch.stack([image.flip(-1) if turned else image for image, turned in zip(x, mirrored, strict=True)])
        x = x + 0.05 * torch.randn(x.shape, generator=generator).double()
        optimizer.param_groups[0]["lr"] = recipe.learning_rate_at(step, num_steps)
        optimizer.zero_grad()
        cross_entropy(twin(x), data.y[batches[step]], label_smoothing=0.1).backward()
        optimizer.step()
        if step >= num_steps / 2:
            kept.append([param.detach().clone() for param in twin.parameters()])
    for place, param in enumerate(network.parameters()):
        mean = torch.stack([values[place] for values in kept]).mean(0)
        # At most 100 steps in double precision, of a loss that is convex: rounding stays far below.
        assert torch.allclose(param, mean, atol=1e-10, rtol=0)


def nothing(x, y, generator):
    return x, y


@pytest.mark.parametrize("name", ["distillation", "frozen"])
def test_images_that_stay_as_they_are_may_be_seen_once_or_in_every_step(name):
    states = []
    for augment in (None, nothing):
        stream, method = suite.make_stream(2), make_method(name)
        one_step = replace(SETTINGS, epochs=1, batch_size=len(stream[0].dataset.train), augment=augment)
        method.start(suite.make_skeletons()["linear"], one_step, 0)
        for _ in stream:
            suite.learn_next(method, stream)
        states.append(method.state()["network"])
    for key, value in states[0].items():
        # One step at a rate of 0.1, from features of size one that were summed over 25 pixels in another order: the
        # difference is some hundred times the rounding of single precision at most.
        assert torch.allclose(value, states[1][key], atol=1e-5), key


def test_former_answers_are_those_to_the_images_as_the_step_shows_them():
    stream = suite.make_stream(2)
    method = make_method("distillation", warm_up=0.0)
    method.start(suite.make_skeletons()["linear"], replace(SETTINGS, augment="noise:0.5"), 0)
    suite.learn_next(method, stream)
    former = copy.deepcopy(method.shared).eval()
    (part,) = method.parts
    method._add_head(3, 1)
    part.prepare(method.shared, 1, stream[1].dataset.train)
    with torch.no_grad():
        for param in method.shared.parameters():
            param.mul_(0.5)
    x, _ = noise(stream[1].dataset.train.x[:4], torch.zeros(4), torch.Generator().manual_seed(1), 0.5)
    features = method.shared.body(x)
    rows = torch.arange(4)
    found = part.with_terms(torch.zeros(()), method.shared, features, Minibatch(x, rows))
    wanted = (former(x, task=0) / 2).softmax(1)
    said = (method.shared.heads[0](features) / 2).log_softmax(1)
    assert torch.allclose(found, -(wanted * said).sum(1).mean(), atol=1e-5)


@pytest.mark.parametrize("name", ["replay", "joint"])
def test_targets_are_not_mixed_where_a_batch_has_several_tasks(name):
    stream, method = suite.make_stream(2, size=3), make_method(name)
    method.start(suite.make_skeletons()["linear"], replace(SETTINGS, augment="mixup"), 0)
    with pytest.raises(ConfigError, match="need their own classes, but the augmentation mixes them"):
        for _ in stream:
            suite.learn_next(method, stream)
    assert not method.tasks


def test_mixed_targets_train_one_task():
    stream, method = suite.make_stream(2, size=3), make_method("naive")
    method.start(suite.make_skeletons()["linear"], replace(SETTINGS, augment="mixup:alpha=0.5"), 0)
    for _ in stream:
        suite.learn_next(method, stream)
    assert len(method.tasks) == 2


def test_a_loss_that_gives_a_vector_is_refused_in_one_line():
    stream, method = suite.make_stream(1, size=3), make_method("individual")
    vector = LearnRecipe(epochs=1, loss=partial(cross_entropy, reduction="none"))
    method.start(suite.make_skeletons()["linear"], vector, 0)
    with pytest.raises(ConfigError, match="a loss must be one number, the mean over a batch, but has shape"):
        suite.learn_next(method, stream)
    assert not method.tasks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["naive", "individual", "bind-and-grow"])
def test_compiled_networks_are_trained_and_end_up_plain(name):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    stream, method = suite.make_stream(2, size=3), make_method(name)
    method.start(suite.make_skeletons()["linear"], replace(SETTINGS, compile=True), 0)
    for _ in stream:
        suite.learn_next(method, stream)
    assert torch._dynamo.utils.counters["frames"]["ok"] > 0
    for task in method.tasks:
        assert all(module._compiled_call_impl is None for module in method.network(task.name).modules())
