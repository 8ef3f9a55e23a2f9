"""The work of learning: counted as by hand, the same after a kill, and no step changed by it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

import ramet.continual.training as training
from ramet.continual import METHODS, learn, make_method
from ramet.continual.loop import costs_of
from ramet.continual.training import Samples, Saves, classification, epoch_work, train
from ramet.continual.work import TaskWork, step_work
from ramet.testing.methods import SETTINGS, make_skeletons
from ramet.testing.methods import make_stream as make_tasks
from ramet.training import Settings

CHEAP = ("individual", "replay", "frozen", "progressive", "bind-and-grow", "warm-start", "packnet")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def data(count=20):
    torch.manual_seed(1)
    return Samples(torch.randn(count, 6), torch.arange(count) % 3)


def test_a_step_is_counted_as_products_forward_and_back():
    module, samples = network(), data()
    loss, _ = classification(module, samples, Settings())
    batch = (samples.x, samples.y, torch.arange(20))
    # Forward 20 (6 * 5 + 5 * 3); back the same for weights, and 5 * 3 for what the last layer takes.
    assert step_work(module, loss, batch, list(module.parameters())) == 20 * (2 * (30 + 15) + 15)
    # With the first layer frozen neither its weights nor what they take need a gradient.
    last = list(module[2].parameters())
    module[0].requires_grad_(False)
    assert step_work(module, loss, batch, last) == 20 * (30 + 15 + 15)


def test_products_are_counted_in_inference_mode_where_parameters_are_inputs():
    work, weight = TaskWork(), nn.Parameter(torch.randn(4, 6))

    class Scaled(nn.Module):
        def forward(self, weight):
            return 2 * weight

    scaled = Scaled()
    with torch.inference_mode(), work.counted("products"):
        torch.randn(7, 6) @ scaled(weight).T
        nn.Conv2d(2, 3, 3)(torch.randn(1, 2, 5, 5))
    assert work.total == 7 * 6 * 4 + 9 * 9 * 2 * 3


def test_counting_leaves_statistics_generators_and_gradients_alone():
    module = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)).train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    samples, state = data(), torch.get_rng_state()
    loss, _ = classification(module, samples, Settings())
    step_work(module, loss, (samples.x, samples.y, torch.arange(20)), list(module.parameters()))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(param.grad is None for param in module.parameters())


def test_a_training_counts_all_its_samples_also_when_it_was_finished_before(tmp_path):
    settings, samples = Settings(epochs=3, batch_size=8), data(21)
    works = []
    for _ in range(2):  # the second one finds the training finished
        module = network()
        saves = Saves(tmp_path)
        train(module, *classification(module, samples, settings), settings, seed=0, saves=saves, phase="one")
        works.append(saves.work.phases)
    assert works[0] == works[1] == {"one": 3 * 21 * (2 * (30 + 15) + 15)}
    module = network()
    each = epoch_work(module, *classification(module, samples, settings), settings, seed=0)
    assert 3 * each == works[0]["one"]


@pytest.mark.parametrize("name", CHEAP)
def test_counting_changes_no_bit_of_what_is_learned(name, monkeypatch):
    options = {"method": make_method(name), "network": make_skeletons()["linear with batch norm"], "settings": SETTINGS}
    stream = make_tasks(2)
    counted = learn(stream, **options)
    monkeypatch.setattr(training, "_epoch_work", lambda *arguments: 0.0)
    monkeypatch.setattr(TaskWork, "counted", lambda self, phase: nullcontext())
    plain = learn(stream, **options | {"method": make_method(name)})
    for task in stream.names:
        ours, theirs = counted.task(task).state_dict(), plain.task(task).state_dict()
        assert all(torch.equal(value, theirs[key]) for key, value in ours.items())
    assert all(row["work"] > 0 for row in counted.rows)


def test_a_probe_is_counted_besides_the_path():
    learned = learn(make_tasks(2), method="bind-and-grow", network=make_skeletons()["linear"], settings=SETTINGS)
    assert {"probe", "path", "conflicts"} <= set(learned.rows[1]["work_by_phase"])
    assert learned.figures()["work"] == sum(row["work"] for row in learned.rows)


def test_firefly_counts_the_growth_of_its_first_network():
    learned = learn(make_tasks(2), method="firefly:goal=1.0", network=make_skeletons()["linear"], settings=SETTINGS)
    first = learned.rows[0]
    # Each training of the thin network and of the grown ones goes forward and twice as far back.
    assert first["work_by_phase"]["grow"] >= 3 * SETTINGS.epochs * 24 * 5 * 25


def test_rows_of_earlier_versions_have_no_work():
    row = {"parameters": 1, "stored_bytes": 4, "flops": 2}
    assert costs_of([row])["work"] is None and costs_of([row | {"work": 3}])["work"] == 3


def test_every_method_says_what_it_took():
    assert TaskWork().total == 0
    assert {"individual", "separate", "warm-start"} <= set(METHODS)
