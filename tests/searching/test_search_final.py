"""The final training: what it adds to the search's network, that it goes on after a kill, and what is left of it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.costs import count_parameters
from ramet.data import load
from ramet.errors import ConfigError
from ramet.fields import from_json, to_json
from ramet.ranking import SupernetSetup
from ramet.searching import FinalNetworkOptions, SearchPlan
from ramet.searching import final as final_module
from ramet.searching.final import train_final, trained_child
from ramet.seeding import torch_generator
from ramet.spaces import Cells64, Darts, EnasMicro, EnasNetwork, FinalNetwork, Recurrent
from ramet.spaces.darts.genotypes import DARTS_V2
from ramet.training import Settings
from ramet.training.extras import UnusedRecipeWarning

FINAL = {"channels": 3, "cells": 2, "cutout": 3}
SPACES = {
    "darts": Darts(channels=2, num_cells=1, num_nodes=1, operations=["sep_conv_3x3", "skip_connect"]),
    "enas-micro": EnasMicro(channels=2, cells_per_stage=1, num_nodes=1),
}
PLAIN = Settings(epochs=2, batch_size=20, learning_rate=0.05)
SETTINGS = replace(PLAIN, auxiliary_weight=0.4, drop_path=0.4)


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=60, eval_size=20)


class StopError(Exception):
    """The training is killed."""


@pytest.mark.parametrize("name", SPACES)
def test_a_final_training_goes_on_and_its_network_is_plain(name, digits, tmp_path, monkeypatch):
    space = SPACES[name]
    arch = space.sample(torch_generator(0, "arch"))
    whole = SupernetSetup(space, digits, SETTINGS, folder=tmp_path / "whole")
    expected = train_final(whole, arch=list(arch), seed=1, final_network=FINAL)

    parts = SupernetSetup(space, digits, SETTINGS, folder=tmp_path / "parts", seconds_between_checkpoints=0.0)
    pulses = []

    def stop(share):
        pulses.append(share)
        if len(pulses) == 5:  # in the second epoch, where drop-path is on
            raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(final_module, "pulse", stop)
        with pytest.raises(StopError):
            train_final(parts, arch=list(arch), seed=1, final_network=FINAL)
    assert train_final(parts, arch=list(arch), seed=1, final_network=FINAL) == expected

    child = trained_child(parts, arch, 1, FINAL)
    assert not any(type(part).__module__.startswith("ramet") for part in child.modules())
    assert count_parameters(child) == expected["parameters"]
    assert not any("auxiliary" in key for key in child.state_dict())
    wrong = (child(digits.test.x).argmax(1) != digits.test.y).float().mean()
    assert float(wrong) == pytest.approx(expected["test"])


def test_each_step_has_its_drop_path_and_its_holes(digits, monkeypatch):
    """Three steps an epoch: drop-path is 0 in the first and half its end in the second; squares of 3 pixels are cut."""
    seen = []

    def with_auxiliary(self, x, arch):
        drop_path = next(module.drop_path for module in self.modules() if hasattr(module, "drop_path"))
        seen.append((drop_path, x))
        logits = self(x)
        return logits, logits

    monkeypatch.setattr(FinalNetwork, "with_auxiliary", with_auxiliary)
    setup = SupernetSetup(SPACES["darts"], digits, SETTINGS)
    train_final(setup, arch=[0, 1, 1, 0], seed=1, final_network=FINAL)
    assert [drop_path for drop_path, _ in seen] == [0.0] * 3 + [0.2] * 3
    images = {tuple(image.flatten().tolist()) for image in digits.train.x}
    whole = [tuple(image.flatten().tolist()) in images for _, x in seen for image in x]
    assert sum(whole) < len(whole) / 10  # a hole may fall on pixels that are zero already
    assert not torch.equal(seen[0][1], seen[3][1])


def test_the_recipe_and_the_options_are_one_thing(digits, tmp_path):
    """The same bits by the recipe, by one of its own for what was found, and by the options from Python."""
    space, arch = SPACES["darts"], [0, 1, 1, 0]
    ways = {
        "recipe": (SETTINGS, {}, None),
        "options": (PLAIN, {"auxiliary_weight": 0.4, "drop_path": 0.4}, None),
        "plain": (PLAIN, {}, None),
        "own": (PLAIN, {}, f"{tmp_path / 'own.py'}:recipe"),
    }
    (tmp_path / "own.py").write_text("def recipe():\n    return {'auxiliary_weight': 0.4, 'drop_path': 0.4}\n")
    found = {}
    for name, (settings, options, recipe) in ways.items():
        setup = SupernetSetup(space, digits, settings, folder=tmp_path / name)
        result = train_final(setup, arch=arch, seed=1, final_network=FINAL | options, recipe=recipe)
        child = trained_child(setup, tuple(arch), 1, FINAL | options, recipe)
        found[name] = result, [param.tolist() for param in child.parameters()]
    assert found["recipe"] == found["options"] == found["own"] != found["plain"]


def test_a_space_without_a_network_of_its_own_is_trained_without_and_says_so(digits):
    setup = SupernetSetup(Cells64(channels=2, num_cells=1), digits, SETTINGS)
    with pytest.warns(UnusedRecipeWarning, match="is trained without the recipe's drop_path of 0.4 .* and auxiliary"):
        train_final(setup, arch=[1, 1, 1], seed=0)


def test_cutout_alone_is_for_every_space_of_images(digits, tmp_path):
    """The same network from the same weights, trained on other images."""
    weights = []
    for final in ({}, {"cutout": 4}):
        setup = SupernetSetup(Cells64(channels=2, num_cells=1), digits, PLAIN, folder=tmp_path / str(len(final)))
        train_final(setup, arch=[1, 1, 1], seed=0, final_network=final)
        weights.append(dict(trained_child(setup, (1, 1, 1), 0, final).named_parameters()))
    assert weights[0].keys() == weights[1].keys()
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_an_enas_network_is_its_supernets_path_and_learns_through_its_head():
    space = EnasMicro(channels=4, cells_per_stage=1, num_nodes=2)
    arch = space.sample(torch_generator(1, "arch"))
    network = EnasNetwork(space, arch, 3, 5)
    supernet = space.supernet(3, 5)
    supernet.load_state_dict({k: v for k, v in network.state_dict().items() if k.startswith("stages.")})
    x, y = torch.randn(6, 3, 16, 16), torch.randint(5, (6,))
    with torch.no_grad():
        assert torch.equal(network.eval()(x), supernet.eval()(x, arch))
        assert torch.equal(network(x, arch), network.plain()(x))
    with pytest.raises(ConfigError, match="a network of its own"):
        network(x, space[0] if arch != space[0] else space[1])
    network.train()
    torch.autograd.backward(network.loss(x, y) - nn.functional.cross_entropy(network(x), y))
    assert all(param.grad is not None for param in network.auxiliary.parameters())
    network.set_drop_path(0.5)
    assert not torch.equal(network(x), network(x))


def test_the_published_network_has_its_parameters_apart_from_the_head():
    final = FinalNetworkOptions(channels=36, cells=20, auxiliary_weight=0.4, drop_path=0.2, cutout=16)
    space = Darts()
    arch = space.parse(DARTS_V2)
    with torch.device("meta"):
        network = final.build(space, arch, 3, 10)
    head = count_parameters(network.auxiliary)
    assert count_parameters(network) - head == 3_349_342
    # 1x1 from 4 nodes of 144 channels to 128, 2x2 to 768, each with a batch norm, and the linear layer.
    assert head == 576 * 128 + 2 * 128 + 4 * 128 * 768 + 2 * 768 + 769 * 10


def test_a_plan_keeps_its_final_network():
    plan = SearchPlan(final_network=FinalNetworkOptions(cutout=2))
    assert from_json(SearchPlan, to_json(plan)) == plan and not plan.final_network.is_plain
    assert FinalNetworkOptions().is_plain and not FinalNetworkOptions(cells=3).is_plain


@pytest.mark.parametrize(
    "action, words",
    [
        (lambda: FinalNetworkOptions(drop_path=1.0), "drop_path must lie in"),
        (lambda: FinalNetworkOptions(cutout=-1), "no negative"),
        (lambda: FinalNetworkOptions(channels=0), "at least 1 channel"),
        (lambda: FinalNetworkOptions(auxiliary_weight=float("nan")), "no negative"),
        (lambda: from_json(FinalNetworkOptions, {"dropout": 1}), "fields of FinalNetworkOptions"),
        (lambda: from_json(SearchPlan, {"final_network": {"cutout": -1}}), "no negative"),
        (lambda: FinalNetworkOptions(cutout=9).check(Darts(), (1, 8, 8)), "at most the 8 pixels"),
        (lambda: FinalNetworkOptions(drop_path=0.1).check(Cells64(), (1, 8, 8)), "but cells64 has none"),
        (lambda: FinalNetworkOptions(cutout=1).check(Recurrent(), (16,)), "data are words"),
    ],
)
def test_bad_final_networks_are_one_line(action, words):
    with pytest.raises(ConfigError, match=words) as raised:
        action()
    assert "\n" not in str(raised.value)


def test_what_was_found_is_trained_by_a_recipe_of_its_own(monkeypatch):
    """Its fields stand in place of the search's; the others, and the plan's epochs, stay."""
    from ramet.searching import final

    seen = []
    monkeypatch.setattr(final, "fit", lambda *arguments, **options: seen.append(arguments[3]))
    data = load("digits", train_size=16, eval_size=16)
    setup = SupernetSetup(
        Cells64(channels=2, num_cells=1), data, Settings(batch_size=8, learning_rate=0.1, momentum=0.5)
    )
    for recipe in (None, "adamw:learning_rate=0.002"):
        final.train_final(setup, arch=[0, 0, 0], seed=0, epochs=3, recipe=recipe)
    same, own = seen
    assert (same.learning_rate, same.optimizer, same.epochs, same.momentum) == (0.1, "sgd", 3, 0.5)
    assert (own.learning_rate, own.optimizer, own.epochs, own.momentum) == (0.002, "adamw", 3, 0.5)
    assert own.batch_size == 8
