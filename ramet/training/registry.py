"""The functions that a recipe names, from optimizers to augmentations; none is imported before it is used."""

from __future__ import annotations

from ramet.registry.functions import FunctionRegistry


def _in(module: str, *names: str) -> dict[str, str]:
    return {name: f"ramet.training.{module}:{name.replace('-', '_')}" for name in names}


OPTIMIZER_FUNCTIONS = FunctionRegistry("optimizer", group="ramet.optimizers", built_in={}, given=("groups",))
"""What ``Recipe.optimizer`` names besides torch's own: functions of parameter groups."""

SCHEDULES = FunctionRegistry(
    "schedule",
    group="ramet.schedules",
    built_in=_in("schedules", "cosine", "constant", "linear", "step", "exponential", "one-cycle", "restarts"),
    given=("recipe", "step", "num_steps"),
)
"""What ``Recipe.schedule`` names. A function of one's own takes a step and the number of steps, and gives a factor."""

LOSSES = FunctionRegistry(
    "loss",
    group="ramet.losses",
    built_in=_in("losses", "cross-entropy", "squared-error", "absolute-error", "huber", "binary"),
    given=("outputs", "targets"),
)
"""What ``Recipe.loss`` names; a function of one's own takes outputs and targets, and then its options."""

METRICS = FunctionRegistry(
    "metric",
    group="ramet.metrics",
    built_in=_in("metrics", "accuracy", "top", "squared-error", "absolute-error", "r2", "perplexity", "bits", "loss"),
    given=("of",),
)
"""What ``Recipe.metric`` names: functions that make a ``Metric``; one of one's own takes outputs and targets."""

AUGMENTATIONS = FunctionRegistry(
    "augmentation",
    group="ramet.augmentations",
    built_in=_in("augmentation", "crop", "flip", "cutout", "mixup", "noise"),
    given=("x", "y", "generator"),
)
"""What ``Recipe.augment`` names, joined by ``+``."""

RECIPES = FunctionRegistry(
    "recipe",
    group="ramet.recipes",
    built_in=_in("recipes", "darts", "disturbance-immune", "imagenet", "adamw", "enas"),
    given=(),
)
"""What ``--recipe`` names: functions that give a ``Recipe``, or a mapping of its fields."""
