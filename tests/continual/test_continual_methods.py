"""Every built-in method keeps what the seam promises, and each baseline does what its paper says."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.continual import METHODS, make_method
from ramet.continual.methods.distillation import distillation_loss
from ramet.continual.methods.packnet import largest
from ramet.seeding import derive_seed, seeded_globally
from ramet.testing import methods as suite
from ramet.testing.methods import METHOD_CHECKS
from ramet.training import Batches, accuracy

OPTIONS = {
    "firefly": {"goal": 1.0, "neurons": 4, "candidates": 3, "rounds": 1},
    "replay": {"memory": 12},
    "cpg": {"prune_step": 0.45},
    "den": {"loss_threshold": 0.0, "new_units": 3},
    "rcl": {"trials": 2, "max_units": 4},
    "random-growth": {"draw": 2},  # the first grows one layer, then all; draw 0 would grow none of the suite's tasks
}


def maker(name):
    return partial(make_method, name, **OPTIONS.get(name, {}))


LONG = ("joint", "random-growth", "learn-to-grow", "apd", "rcl")
"""Long, or near relatives of others: their formulas are held below, the seam's promises with the slow tests."""


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in METHODS])
def test_conformance(name, check):
    check(maker(name))


# What each paper says, by hand or against a slow twin


def learned(name, num_tasks=3, **options):
    stream, method = suite.make_stream(), suite.started(partial(make_method, name, **options))
    for _ in range(num_tasks):
        suite.learn_next(method, stream)
    return method, stream


def test_naive_is_plain_training_of_one_network_after_the_other():
    method, stream = learned("naive", 1)
    network, twin = method.network("task 0"), suite.started(maker("naive"))
    data = stream[0].dataset.train
    body = twin.shared.body
    with seeded_globally(0, "weights", "head", 0):
        head = twin.skeleton.make_head(2)
    whole, settings = nn.Sequential(*body, head), suite.SETTINGS
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    batches = Batches(len(data), settings.batch_size, derive_seed(0, "task", 0))
    steps = settings.epochs * batches.steps_per_epoch
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = settings.learning_rate_at(step, steps)
        optimizer.zero_grad()
        cross_entropy(whole(data.x[batches[step]]), data.y[batches[step]]).backward()
        optimizer.step()
    for one, other in zip(network.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_distillation_by_hand():
    logits, answers = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    # At T = 2: log-softmax of (1, 0) against the softmax of (0, 2).
    expected = torch.tensor([0.0, 2.0]).softmax(0)
    by_hand = -(expected * torch.tensor([1.0, 0.0]).log_softmax(0)).sum()
    assert torch.allclose(distillation_loss(logits, answers, 2.0), by_hand)
    # It is least where the answers are met.
    assert distillation_loss(answers, answers, 2.0) < distillation_loss(logits, answers, 2.0)


def test_replay_keeps_an_even_share_of_each_task():
    method, stream = learned("replay", memory=12)
    memory = method.state()["memory"]
    assert memory["places"].bincount().tolist() == [4, 4, 4]
    for place, task in enumerate(stream):
        rows = {tuple(row.flatten().tolist()) for row in task.dataset.train.x}
        kept = memory["x"][memory["places"] == place]
        assert len(kept) == 4 and all(tuple(row.flatten().tolist()) in rows for row in kept)


def test_packnet_gives_each_task_its_share():
    method, _ = learned("packnet", prune=0.5)
    for owner in method.state()["owners"]:
        shares = [float((owner == place).float().mean()) for place in (1, 2, 3, 0)]
        assert shares == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.02)
    for place, task in enumerate(method.tasks):
        for layer, owner in zip(method.network(task.name), method.state()["owners"], strict=False):
            used = layer.weights.weight != 0
            assert not bool(used[(owner == 0) | (owner > place + 1)].any())
            assert bool(used[(owner > 0) & (owner <= place + 1)].all())


def test_packnet_keeps_the_largest_weights():
    weights = torch.tensor([[0.1, -3.0, 2.0], [-0.2, 0.3, 5.0]])
    among = torch.tensor([[True, True, True], [True, True, False]])
    assert largest(weights, among, 0.4).tolist() == [[False, True, True], [False, False, False]]
    assert not largest(weights, torch.zeros_like(among), 0.5).any()


def test_a_column_reads_the_columns_before_it():
    method, stream = learned("progressive", 2)
    first, second = method.columns
    x = stream[1].dataset.test.x
    h = [first.layers[0](x)]
    lateral = second.laterals[0]
    own = second.layers[0](x)
    # h2 = relu(W h1 + U relu(V (alpha h1 of the first column)))
    adapted = lateral.expand(torch.relu(lateral.reduce(lateral.scales[0] * h[0])))
    hidden = torch.relu(second.layers[1].weights(own) + adapted)
    old_hidden = first.layers[1](h[0])
    lateral = second.laterals[1]
    adapted = lateral.expand(torch.relu(lateral.reduce(lateral.scales[0] * old_hidden)))
    logits = second.layers[2].weights(hidden) + adapted
    assert torch.allclose(method.network("task 1")(x), logits, atol=1e-6)


def test_elastic_holds_weights_the_more_the_stronger():
    distances = []
    for strength in (0.0, 1e3, 1e7):
        method, stream = learned("elastic", 1, strength=strength)
        before = method.network("task 0").state_dict()
        suite.learn_next(method, stream)
        after = method.network("task 0").state_dict()
        distances.append(sum(float((after[name] - before[name]).square().sum()) for name in before))
    assert distances[0] > distances[1] > distances[2]


def test_joint_training_is_no_worse_on_early_tasks_than_naive():
    scores = []
    for name in ("joint", "naive"):
        method, stream = learned(name)
        test = stream[0].dataset.test
        scores.append(accuracy(method.network("task 0"), test.x, test.y))
    assert scores[0] >= scores[1]
