"""Averages of weights against sums by hand, and over a kill."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from ramet.continual import train
from ramet.continual.training import Saves, classification
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.runs import Checkpoints
from ramet.training import Recipe, fit
from ramet.training.acceleration import compiled, has_bfloat16
from ramet.training.averaging import WeightAverage

X, Y = torch.randn(24, 3, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 2
SHORT = Recipe(epochs=2, batch_size=6, learning_rate=0.1)  # 8 steps


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def weights_after_each_step(recipe):
    plain, kept = network(), []
    fit(plain, X, Y, recipe, seed=0, after_step=lambda *_: kept.append(copy.deepcopy(plain.state_dict())))
    return kept


def trained(recipe, **options):
    made = network()
    fit(made, X, Y, recipe, seed=0, **options)
    return made.state_dict()


def test_the_tail_is_the_mean_of_the_last_weights_and_statistics():
    kept = weights_after_each_step(SHORT)[-4:]
    for name, value in trained(Recipe(**{**SHORT.to_json(), "average": "tail:0.5"})).items():
        if value.is_floating_point():
            assert torch.allclose(value, sum(state[name] for state in kept) / 4, atol=1e-6), name
        else:
            assert value == kept[-1][name]


def test_a_moving_average_forgets_by_its_decay():
    kept, mean = weights_after_each_step(SHORT), None
    for count, state in enumerate(kept):
        decay = min(0.3, (1 + count) / (10 + count)) if count else 0.0
        here = state["0.weight"].double()
        mean = here if mean is None else decay * mean + (1 - decay) * here
    found = trained(Recipe(**{**SHORT.to_json(), "average": "ema:0.3"}))
    assert torch.allclose(found["0.weight"].double(), mean, atol=1e-6)


class KilledError(Exception):
    """In place of a kill."""


@pytest.mark.parametrize("text", ["ema:0.9", "tail:0.5"])
def test_a_killed_training_ends_with_the_same_average(tmp_path, text):
    recipe = Recipe(**{**SHORT.to_json(), "average": text})

    def die(step, loss):
        if step == 6:
            raise KilledError

    options = {"checkpoints": Checkpoints(tmp_path / "c"), "seconds_between_checkpoints": 0.0}
    with pytest.raises(KilledError):
        trained(recipe, after_step=die, **options)
    resumed, undisturbed = trained(recipe, **options), trained(recipe)
    assert all(torch.equal(resumed[name], value) for name, value in undisturbed.items())
    again = trained(recipe, **options)  # nothing is left to do
    assert all(torch.equal(again[name], value) for name, value in undisturbed.items())


def by_fit(recipe, folder):
    made = network()
    fit(made, X, Y, recipe, seed=0, checkpoints=Checkpoints(folder), seconds_between_checkpoints=0.0)
    return made.state_dict()


def by_train(recipe, folder):
    made = network()
    saves = Saves(folder, seconds=0.0)
    train(made, *classification(made, Split(X, Y), recipe), recipe, seed=0, saves=saves)
    return made.state_dict()


@pytest.mark.parametrize("run", [by_fit, by_train])
def test_a_training_killed_whenever_it_saves_ends_with_the_same_average(tmp_path, monkeypatch, run):
    """Also behind its last step, whose weights are not the average yet."""
    recipe = Recipe(**{**SHORT.to_json(), "average": "ema:0.9"})
    undisturbed = run(recipe, tmp_path / "whole")
    save, killed = Checkpoints.save, []

    def save_and_die(checkpoints, *arguments):
        save(checkpoints, *arguments)
        killed.append(arguments[0])
        raise KilledError

    monkeypatch.setattr(Checkpoints, "save", save_and_die)
    for _ in range(20):
        try:
            found = run(recipe, tmp_path / "killed")
            break
        except KilledError:
            continue
    assert killed == list(range(1, 9))
    assert all(torch.equal(found[name], value) for name, value in undisturbed.items())


@pytest.mark.parametrize("text", ["ema:1", "ema:0", "tail:2", "mean", "ema:0.5,0.6", "ema:decay=0.9", "ema:x"])
def test_bad_averages(text):
    with pytest.raises(ConfigError, match="average reads ema:DECAY or tail:SHARE"):
        Recipe(average=text)


def test_before_any_step_there_is_no_average():
    made = network()
    before = copy.deepcopy(made.state_dict())
    average = WeightAverage(made, "tail:0.5")
    average.update(0, 10)
    average.put()
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())


def test_half_precision_only_where_the_processor_has_it():
    recipe = Recipe(**{**SHORT.to_json(), "precision": "bfloat16"})
    if has_bfloat16(torch.device("cpu")):
        found, single = trained(recipe), trained(SHORT)
        # Three layers, eight steps of at most 0.1 times a gradient below 1: each off by some 2^-8.
        assert all((found[name] - single[name]).abs().max() < 0.1 for name in found if "weight" in name)
        assert any(not torch.equal(found[name], single[name]) for name in found)
    else:
        with pytest.raises(ConfigError, match="precision bfloat16 is for devices that have it"):
            trained(recipe)


def test_a_compiled_network_is_plain_again_afterwards():
    made = network()
    with compiled(made, Recipe(compile=True)):
        assert made._compiled_call_impl is not None
    assert made._compiled_call_impl is None
    with compiled(made, Recipe()):
        assert made._compiled_call_impl is None


@pytest.mark.slow
def test_a_compiled_training_is_the_plain_one():
    found, plain = trained(Recipe(**{**SHORT.to_json(), "compile": True})), trained(SHORT)
    assert all(torch.allclose(found[name], plain[name], atol=1e-4) for name in plain)


def test_a_loss_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match=r"a loss must be one number, the mean over a batch, but has shape \[6\]"):
        trained(Recipe(**{**SHORT.to_json(), "loss": lambda outputs, targets: outputs.sum(1)}))
