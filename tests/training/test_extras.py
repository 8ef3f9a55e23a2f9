"""Drop-path and the auxiliary loss of a recipe: what they do to a step, when, and that their lack is said."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.cli import main
from ramet.continual.training import classification, train
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.growth import grow
from ramet.training import Recipe, fit
from ramet.training.extras import UnusedRecipeWarning
from ramet.training.recipes import recipe_options

BOTH = {"drop_path": 0.4, "auxiliary_weight": 0.5}


class Two(nn.Module):
    """A network with two classifiers, which notes how probable drop-path was."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.low = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)
        self.seen, self.probability = [], 0.0

    def set_drop_path(self, probability):
        self.probability = probability

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

    def with_auxiliary(self, x):
        self.seen.append(self.probability)
        hidden = torch.relu(self.body(x))
        return self.head(hidden), self.low(hidden)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 4, generator=generator)
    return x, (x[:, 0] > 0).long()


def test_a_training_by_hand_has_the_same_weights(data):
    """Two epochs of one batch of everything: SGD without momentum or decay, its rate halved by the schedule."""
    x, y = data
    network, twin = Two(), Two()
    recipe = Recipe(
        epochs=2, batch_size=8, learning_rate=0.1, schedule="constant", momentum=0.0, weight_decay=0.0, **BOTH
    )
    fit(network, x, y, recipe, seed=0)
    for _ in range(2):
        hidden = torch.relu(twin.body(x))
        loss = cross_entropy(twin.head(hidden), y) + 0.5 * cross_entropy(twin.low(hidden), y)
        for param, slope in zip(twin.parameters(), torch.autograd.grad(loss, list(twin.parameters())), strict=True):
            param.data -= 0.1 * slope
    for param, expected in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(param, expected)  # of another order of the samples
    assert network.seen == [0.0, 0.2]


def test_every_loop_has_them(data):
    x, y = data
    recipe = Recipe(epochs=2, batch_size=4, learning_rate=0.01, **BOTH)
    network = Two()
    fit(network, x, y, recipe, seed=0)
    assert network.seen == [0.0, 0.0, 0.2, 0.2]
    grown, _ = grow(Two(), (x, y, x, y), "neurons=4, step=1", "net2net", settings=recipe, max_steps=0)
    assert grown.seen == pytest.approx([0.0, 0.1, 0.2, 0.3])
    network = Two()
    with pytest.warns(UnusedRecipeWarning, match=r"^Two is .* auxiliary_weight of 0.5 \(tasks have heads of their own"):
        train(network, *classification(network, Split(x, y), recipe), recipe, seed=0)
    assert network.probability == 0.2 and not network.seen


def test_what_a_network_has_not_is_said_once_in_one_line(data):
    x, y = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(nn.Linear(4, 2), x, y, Recipe(epochs=3, batch_size=4, **BOTH), seed=0)
        fit(nn.Linear(4, 2), x, y, Recipe(epochs=3, batch_size=4), seed=0)
        made = Two()
        made.auxiliary = None  # as a network of found cells that was made without such a head
        fit(made, x, y, Recipe(epochs=3, batch_size=4, auxiliary_weight=0.5), seed=0)
    assert [str(warning.message) for warning in caught] == [
        "Linear is trained without the recipe's drop_path of 0.4 (it has no set_drop_path) and auxiliary_weight of 0.5 "
        "(it has no with_auxiliary).",
        "Two is trained without the recipe's auxiliary_weight of 0.5 (it has no with_auxiliary).",
    ]


def test_darts_recipe_has_both_and_options_are_where_they_were(capsys):
    names = ("augment", "auxiliary_weight", "drop_path")
    assert [recipe_options("darts")[name] for name in names] == ["crop:4+flip+cutout:16", 0.4, 0.2]
    assert recipe_options("disturbance-immune")["drop_path"] == 0.2
    assert recipe_options("disturbance-immune:augment=None")["drop_path"] == 0
    for verb in ("search", "rank", "grow", "learn"):
        main([verb, "--help"])
        words = capsys.readouterr().out
        assert words.count("--drop-path ") == words.count("--auxiliary-weight ") == 1, verb


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("drop_path", 1.0, "drop_path must lie in [0, 1), but got 1.0."),
        ("auxiliary_weight", -0.1, "auxiliary_weight must be finite and not negative, but got -0.1."),
        ("auxiliary_weight", "much", "auxiliary_weight must be a number, but got 'much'."),
    ],
)
def test_bad_values_are_refused(field, value, rule):
    with pytest.raises(ConfigError) as raised:
        Recipe(**{field: value})
    assert str(raised.value) == rule
