"""Recipes by name: what ``--recipe NAME`` or ``--recipe FILE.py:function`` sets, where no option does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ramet.errors import ConfigError, RametError, told
from ramet.registry import parse_spec, reference_to
from ramet.training.recipe import Recipe
from ramet.training.registry import RECIPES


def recipe_options(text: str) -> dict[str, Any]:
    """The fields that a recipe by name sets; those that it leaves at their defaults are the command's own.

    Args:
        text: a name, or ``FILE.py:function`` of one's own, with options after a colon. The function gives a ``Recipe``
            or a mapping of its fields; functions in it must stand in a file or module: a resumed run looks there.

    Raises:
        ConfigError: there is no such recipe, or it gives something else.

    >>> recipe_options("adamw:learning_rate=0.002")["learning_rate"]
    0.002
    """
    try:
        made = RECIPES.bind(text)()
    except (RametError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ConfigError(f"the function of {text} must run, but raises {told(error)}.") from error
    plain = Recipe()
    if isinstance(made, Recipe):
        made = {field.name: getattr(made, field.name) for field in fields(Recipe)}
        made = {name: value for name, value in made.items() if value != getattr(plain, name)}
    known = {field.name for field in fields(Recipe)}
    if not isinstance(made, Mapping) or not set(made) <= known:
        raise ConfigError(f"a recipe is a Recipe or a mapping of its fields, but {text} gives {made!r:.80}.")
    place = parse_spec(text, RECIPES).name.rpartition(":")[0]
    return {name: _named(value, name, place) if callable(value) else value for name, value in made.items()}


def final_settings(recipe: Recipe, text: str | None) -> Recipe:
    """A recipe in which the fields of another one, by name, are set; nothing is for no name.

    Raises:
        ConfigError: there is no such recipe, or its values do not go together with the others.

    >>> final_settings(Recipe(learning_rate=0.1, clip_norm=5.0), "adamw:learning_rate=0.002").learning_rate
    0.002
    """
    return recipe if text is None else replace(recipe, **recipe_options(text))


def _named(function: Any, field: str, place: str) -> str:
    """The text of a function of the recipe's own file or of a module."""
    reference = reference_to(function)
    if reference is None:
        raise ConfigError(f"the {field} of a recipe by name must be a function of a file, but got {function!r:.80}.")
    module, _, name = reference.rpartition(":")
    return f"{place}:{name}" if place.endswith(f"{module}.py") else reference


def darts() -> dict[str, Any]:
    """How DARTS trains what it found: SGD, a cosine to 0, crops, flips, cutout, auxiliary head, drop-path, clipping."""
    return {
        "optimizer": "sgd",
        "batch_size": 96,
        "learning_rate": 0.025,
        "final_learning_rate": 0.0,
        "momentum": 0.9,
        "weight_decay": 3e-4,
        "clip_norm": 5.0,
        "augment": "crop:4+flip+cutout:16",
        "auxiliary_weight": 0.4,
        "drop_path": 0.2,
    }


def disturbance_immune(batch_size: int = 128, augment: str | None = "crop:4+flip+cutout:16") -> dict[str, Any]:
    """How *Disturbance-immune weight sharing* trains what it found on CIFAR-10: DARTS' way, at twice the rate.

    Args:
        batch_size: samples in a mini-batch; 128 in the paper.
        augment: what is done to each training batch; without it there is neither auxiliary head nor drop-path, which
            are for long trainings, too.
    """
    short = {} if augment is not None else {"auxiliary_weight": 0.0, "drop_path": 0.0}
    return darts() | {"batch_size": batch_size, "learning_rate": 0.05, "augment": augment} | short


def imagenet() -> dict[str, Any]:
    """How *Disturbance-immune weight sharing* trains for ImageNet: SGD from 0.1 by a cosine, hardly any weight decay.

    Batch size, clipping and smoothed labels are DARTS', whose code for ImageNet the paper uses. Crops and flips are
    what ``ramet.data.ImageFolderStream`` does to each image.
    """
    return {
        "optimizer": "sgd",
        "batch_size": 128,
        "learning_rate": 0.1,
        "final_learning_rate": 0.0,
        "momentum": 0.9,
        "weight_decay": 3e-5,
        "clip_norm": 5.0,
        "loss": "cross-entropy:smoothing=0.1",
    }


def adamw(learning_rate: float = 1e-3, weight_decay: float = 0.05, warmup: float = 0.05) -> dict[str, Any]:
    """AdamW with a warm-up and a cosine to 0, norms and biases not decayed: for transformers, and for most else.

    Args:
        learning_rate: the largest.
        weight_decay: of matrices.
        warmup: the share of the training in which the learning rate rises.
    """
    return {
        "optimizer": "adamw",
        "learning_rate": learning_rate,
        "final_learning_rate": 0.0,
        "weight_decay": weight_decay,
        "undecayed": "vectors",
        "warmup": warmup,
        "clip_norm": 1.0,
    }


def enas() -> dict[str, Any]:
    """How ENAS trains shared weights of images: SGD with restarts of 10, 20, 40, ... epochs."""
    return {
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "final_learning_rate": 0.0005,
        "schedule": "restarts:first=10,longer=2",
        "weight_decay": 1e-4,
        "clip_norm": 5.0,
    }
