"""The learning rate of a task, found on validation data."""

from __future__ import annotations

import pytest
import torch

import ramet.continual.rates as rates
from ramet.continual import learn
from ramet.continual.plan import LearnPlan
from ramet.errors import ConfigError
from ramet.testing.methods import SETTINGS, make_skeletons
from ramet.testing.methods import make_stream as make_tasks

NETWORK = make_skeletons()["linear"]


def test_the_rate_that_learns_is_found_and_its_work_counts():
    stream = make_tasks(2)
    found = learn(stream, method="individual", network=NETWORK, settings=SETTINGS, rates=(1e-6, 0.1))
    assert [row["notes"]["learning_rate"] for row in found.rows] == [0.1, 0.1]
    plain = learn(stream, method="individual", network=NETWORK, settings=SETTINGS)
    for ours, theirs in zip(found.rows, plain.rows, strict=True):
        assert ours["work_by_phase"]["train"] == theirs["work"]
        # Each rate is tried for one of six epochs.
        assert ours["work_by_phase"]["rate-0.1"] == ours["work_by_phase"]["rate-1e-06"] == theirs["work"] / 6
    for task in stream.names:  # 0.1 is the recipe's own, and the probe draws from generators of its own
        ours, theirs = found.task(task).state_dict(), plain.task(task).state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    assert found.network.method.settings == SETTINGS


def test_a_rate_that_diverges_is_out():
    found = learn(make_tasks(1), method="individual", network=NETWORK, settings=SETTINGS, rates=(1e12, 0.05))
    assert found.rows[0]["notes"]["learning_rate"] == 0.05


def test_a_killed_search_for_a_rate_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    options = {"method": "individual", "network": NETWORK, "settings": SETTINGS, "rates": (0.02, 0.1)}
    whole = learn(make_tasks(2), **options)
    real, calls = rates.train, []

    def killed(*arguments, **named):
        calls.append(named["phase"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(rates, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            learn(make_tasks(2), **options, folder=tmp_path)
    resumed = learn(make_tasks(2), **options, folder=tmp_path)
    for row in (*whole.rows, *resumed.rows):
        del row["seconds"]
    assert whole.rows == resumed.rows


@pytest.mark.parametrize("text", ["0.1,fast", "0", "-0.1", "0.1,,0.2"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ConfigError):
        LearnPlan(rates=text)


@pytest.mark.parametrize("text", ["neurons=20", "params=10k,step=20%", "params=-1", "some"])
def test_what_is_no_budget_of_a_stream_is_refused(text):
    with pytest.raises(ConfigError):
        LearnPlan(budget=text)
    assert LearnPlan(budget="params=10k").num_parameters == 10_000
