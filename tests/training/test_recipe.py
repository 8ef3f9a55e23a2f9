"""Recipes: what they refuse, what they make, and that a transform is a function of the step."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from exactness import same_bits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.runs import Checkpoints
from ramet.training import Batches, Recipe, Settings, fit, make_optimizer

SHORT = Recipe(epochs=3, batch_size=8, learning_rate=0.1, final_learning_rate=0.01, weight_decay=0.01)


def make_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))


@pytest.fixture(scope="module")
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(30, 4, generator=generator), torch.randint(3, (30,), generator=generator)


def test_settings_are_recipes():
    assert Settings is Recipe


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "magic"}, "optimizer must be one of .*adamw.*sgd.* or a function .*, but got 'magic'"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of"),  # it looks at the loss several times a step
        ({"optimizer": "adamw:speed=3"}, "optimizer must be one of"),
        ({"optimizer": None}, "optimizer must be one of .* but got None"),
        ({"schedule": "linea"}, "a schedule is one of cosine, constant, .*, but got 'linea'; did you mean linear?"),
        ({"schedule": "step:speed=3"}, "options of step are factor, every, but got speed"),
        ({"schedule": "step:1,2,3"}, "options of step are factor, every, but got 3 values"),
        ({"schedule": 3}, "a schedule is a text or a function, but got 3"),
        ({"warmup": 1.0}, r"warmup must lie in \[0, 1\), but got 1.0"),
        ({"undecayed": "all"}, "undecayed must be none or vectors, but got 'all'"),
        ({"loss": "mse"}, "a loss is one of cross-entropy, .*, but got 'mse'"),
        ({"loss": "huber:epsilon=1"}, "options of huber are delta, but got epsilon"),
        ({"augment": "crop+spin"}, "an? augmentation is one of crop, .*, but got 'spin'"),
        ({"augment": 3}, "augmentation is a text or a function, but got 3"),
        ({"accumulate": 0}, "accumulate must lie between 1 and half of batch_size, .*, but got 0"),
        ({"batch_size": 8, "accumulate": 5}, "accumulate must lie between 1 and half of batch_size, .*, but got 5"),
        ({"clip_norm": 0.0}, "clip_norm must be positive, but got 0.0"),
    ],
)
def test_what_a_recipe_refuses(options, message):
    with pytest.raises(ConfigError, match=message):
        Recipe(**options)


def test_a_recipe_of_names_is_json_and_comes_back():
    recipe = Recipe(optimizer="adamw", schedule="constant", clip_norm=1.0, accumulate=2)
    assert recipe.to_json() == asdict(recipe)
    assert Recipe(**json.loads(json.dumps(recipe.to_json()))) == recipe


def halved(step: int, num_steps: int) -> float:
    return 0.5


class Doubled:
    def __call__(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return 2 * x, y


def test_functions_are_described_and_not_followed():
    described = Recipe(schedule=halved, augment=Doubled()).to_json()
    assert described["schedule"] == f"{__name__}:halved" and described["augment"] == f"{__name__}:Doubled"
    assert Recipe(**described).code() == [described["schedule"], described["augment"]]  # named, and not imported
    assert Recipe(loss="nowhere.py:loss", schedule="step:every=0.5").code() == ["nowhere.py:loss"]


def test_schedules():
    recipe = Recipe(learning_rate=0.4, final_learning_rate=0.1)
    assert [replace(recipe, schedule="constant").learning_rate_at(step, 4) for step in range(5)] == [0.4] * 5
    own = replace(recipe, schedule=lambda step, num_steps: 1 - step / num_steps)
    assert [own.learning_rate_at(step, 4) for step in range(5)] == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])


def test_the_loss_follows_the_targets():
    x = torch.tensor([[2.0, 0.0]])
    assert Recipe().loss_for(torch.tensor([0]))(x, torch.tensor([0])).item() == pytest.approx(
        -math.log(math.exp(2) / (math.exp(2) + 1))
    )
    assert Recipe().loss_for(x)(x, torch.tensor([[0.0, 0.0]])).item() == 2.0
    assert Recipe(loss=lambda outputs, targets: outputs.sum()).loss_for(x)(x, x).item() == 2.0


def test_fit_minimises_the_recipes_loss(data):
    seen: list[float] = []
    x = data[0]
    network = nn.Linear(4, 1)
    ones = replace(SHORT, loss=lambda outputs, targets: (outputs - 1).square().mean(), weight_decay=0.0, epochs=40)
    fit(network, x, torch.zeros(len(x)), ones, seed=0, after_step=lambda step, loss: seen.append(loss))
    assert network(x).detach().mean().item() == pytest.approx(1.0, abs=0.1)


def plain(optimizer: torch.optim.Optimizer, network: nn.Module, data, recipe: Recipe, seed: int) -> None:
    """A loop of a beginner's, without dropout."""
    batches = Batches(len(data[0]), recipe.batch_size, seed)
    num_steps = recipe.epochs * batches.steps_per_epoch
    network.train()
    for step in range(num_steps):
        rows = batches[step]
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate_at(step, num_steps)
        optimizer.zero_grad()
        cross_entropy(network(data[0][rows]), data[1][rows]).backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("adamw", torch.optim.AdamW, {}),
        ("adam", torch.optim.Adam, {}),
        ("rmsprop", torch.optim.RMSprop, {"momentum": 0.9}),
        ("sgd", torch.optim.SGD, {"momentum": 0.9}),
    ],
)
def test_optimizers_by_name(data, name, kind, options):
    ours, theirs = make_network().double(), make_network().double()
    ours[2].p = theirs[2].p = 0.0
    data = data[0].double(), data[1]
    recipe = replace(SHORT, optimizer=name)
    fit(ours, *data, recipe, seed=7)
    plain(kind(theirs.parameters(), lr=0.1, weight_decay=0.01, **options), theirs, data, recipe, 7)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_an_optimizer_of_ones_own(data):
    made = []

    def make(groups):
        made.append([(len(group["params"]), group["lr"]) for group in groups])
        return torch.optim.Adagrad(groups)

    recipe = replace(SHORT, optimizer=make)
    assert isinstance(make_optimizer(make_network(), recipe), torch.optim.Adagrad)
    assert made == [[(4, 0.1)]]


def test_an_optimizer_of_a_file_is_named_and_not_followed_before_it_is_used(tmp_path, monkeypatch):
    (tmp_path / "own_optimizer.py").write_text(
        "import torch\ndef own(groups, beta: float = 0.9): return torch.optim.Adam(groups, betas=(beta, 0.95))\n"
    )
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(optimizer="own_optimizer.py:own:beta=0.5")
    assert recipe.code() == ["own_optimizer.py:own"] and "own_optimizer" not in sys.modules
    anchored = recipe.anchored()
    assert anchored.optimizer == f"{tmp_path}/own_optimizer.py:own:beta=0.5"
    made = make_optimizer(make_network(), anchored)
    assert isinstance(made, torch.optim.Adam) and made.param_groups[0]["betas"] == (0.5, 0.95)
    assert Recipe(optimizer="adamw").code() == [] and Recipe(optimizer="adamw").anchored().optimizer == "adamw"


# A transform


class KilledError(Exception):
    """Stands for a kill."""


def noisy(x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return x + torch.randn(x.shape, generator=generator), y


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_transform_is_the_same_after_a_kill(tmp_path: Path, data, accumulate):
    seen: list[Tensor] = []

    def noted(x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = noisy(x, y, generator)
        seen.append(x)
        return x, y

    recipe = replace(SHORT, augment=noted, accumulate=accumulate)

    def train(folder: Path | None, die_in: int = -1) -> nn.Module:
        def after_step(step: int, loss: float) -> None:
            if step == die_in:
                raise KilledError

        network = make_network()
        fit(
            network, *data, recipe, seed=7, after_step=after_step, seconds_between_checkpoints=0.0,
            checkpoints=None if folder is None else Checkpoints(folder),
        )  # fmt: skip
        return network

    whole = train(None)
    expected = list(seen)
    assert len(expected) == 12, "it is done once a step, to the whole mini-batch"
    seen.clear()
    for step in (0, 5, 5):
        with pytest.raises(KilledError):
            train(tmp_path, die_in=step)
    seen.clear()
    resumed = train(tmp_path)
    assert len(seen) == 7 and all(torch.equal(a, b) for a, b in zip(seen, expected[5:], strict=True))
    assert all(same_bits(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


def test_what_a_transform_draws_follows_from_the_seed_and_the_step(data):
    recipe, rows = replace(SHORT, augment=noisy), torch.arange(5)
    draw = lambda seed, step: recipe.batch(*data, rows, seed=seed, step=step)[0]  # noqa: E731
    assert torch.equal(draw(1, 2), draw(1, 2))
    assert not torch.equal(draw(1, 2), draw(1, 3)) and not torch.equal(draw(1, 2), draw(2, 2))
    assert torch.equal(SHORT.batch(*data, rows, seed=1, step=2)[0], data[0][:5])


def test_a_low_learning_rate_needs_no_word_about_the_final_one():
    low = Recipe(learning_rate=5e-4)
    assert low.final_learning_rate == 0.0 and low.learning_rate_at(10, 10) == 0.0
    assert Recipe(learning_rate=0.002).final_learning_rate == 0.001
    with pytest.raises(ConfigError, match="final_learning_rate must lie between 0 and learning_rate"):
        Recipe(learning_rate=5e-4, final_learning_rate=6e-4)
