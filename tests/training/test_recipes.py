"""Recipes by name, on the command line and in a resumed run."""

from __future__ import annotations

import json

import pytest

from ramet.cli.main import main
from ramet.errors import ConfigError
from ramet.training.recipes import recipe_options
from ramet.training.registry import RECIPES

CODE = """
from ramet.training import Recipe

def my_loss(outputs, targets):
    from torch.nn.functional import cross_entropy
    return 2 * cross_entropy(outputs, targets)

def mine(rate: float = 0.3):
    return Recipe(
        learning_rate=rate, epochs=2, batch_size=16, optimizer=my_adam, loss=my_loss, augment="noise:0.1"
    )

def my_adam(groups, beta: float = 0.9):
    import torch
    return torch.optim.Adam(groups, betas=(beta, 0.95))

def fields():
    return {"momentum": 0.5}

def local():
    return Recipe(loss=lambda outputs, targets: outputs.sum())

def wrong():
    return {"speed": 3}

def broken():
    raise ValueError("no")

Recipe_of_a_class = Recipe
"""
GROW = ["grow", "--network", "mlp:width=4", "--max-steps", "1", "--train-size", "64", "--eval-size", "32", "--json"]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "my_recipes.py").write_text(CODE)
    return tmp_path / "my_recipes.py"


def test_what_a_recipe_leaves_alone_stays_the_commands_own(file):
    found = recipe_options(f"{file}:mine:rate=0.2")
    assert found == {
        "learning_rate": 0.2,
        "epochs": 2,
        "batch_size": 16,
        "optimizer": f"{file}:my_adam",
        "loss": f"{file}:my_loss",
        "augment": "noise:0.1",
    }
    assert recipe_options(f"{file}:fields") == {"momentum": 0.5}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("local", "the loss of a recipe by name must be a function of a file"),
        ("wrong", "a recipe is a Recipe or a mapping of its fields"),
        ("broken", "must run, but raises ValueError: no"),
        ("missing", "has no 'missing'"),
    ],
)
def test_bad_recipes(file, name, message):
    with pytest.raises(ConfigError, match=message):
        recipe_options(f"{file}:{name}")


def test_built_in_recipes_are_recipes():
    from ramet.training import Recipe

    for name in RECIPES:
        assert Recipe(**recipe_options(name)).to_json()
    assert recipe_options("adamw:0.01")["learning_rate"] == 0.01


def test_on_the_command_line_options_come_first_and_a_run_goes_on(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main([*GROW, "--out", "run", "--recipe", "my_recipes.py:mine", "--learning-rate", "0.1", "--workers", "2"])
    result = json.loads(capsys.readouterr().out)
    recipe = json.loads((tmp_path / "run/config.json").read_text())["config"]["recipe"]
    assert recipe["learning_rate"] == 0.1 and recipe["epochs"] == 2 and recipe["augment"] == "noise:0.1"
    assert recipe["loss"] == f"{file}:my_loss", "named from the root, for a resumed run"
    assert recipe["optimizer"] == f"{file}:my_adam"
    monkeypatch.chdir("/")
    with pytest.raises(SystemExit):
        main(["resume", str(tmp_path / "run")])
    refusal = capsys.readouterr().err
    assert "my_recipes.py:my_loss" in refusal and "my_recipes.py:my_adam" in refusal
    main(["resume", str(tmp_path / "run"), "--trust", "--json"])
    assert json.loads(capsys.readouterr().out) == result


def test_a_recipe_changes_what_is_trained(tmp_path, capsys):
    found = []
    for number, options in enumerate(([], ["--recipe", "adamw"], ["--recipe", "adamw", "--optimizer", "sgd"])):
        main([*GROW, "--out", str(tmp_path / str(number)), "--epochs", "1", "--batch-size", "16", *options])
        found.append(json.loads(capsys.readouterr().out)["methods"]["even"]["steps"][0]["loss"])
    assert len(set(found)) == 3
