"""The optimizers of torch by name, with the numbers of a recipe that each of them takes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.training.registry import OPTIMIZER_FUNCTIONS

if TYPE_CHECKING:
    from ramet.training.recipe import Recipe

# LBFGS looks at the loss again and again within a step, and SparseAdam needs gradients that no loop here makes.
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name not in ("LBFGS", "SparseAdam")
    if kind is not torch.optim.Optimizer
}
"""By their names in lower case, such as ``sgd``, ``adamw`` and ``rmsprop``."""


def check_optimizer(name: object) -> None:
    """Raise a ``ConfigError`` for what names no optimizer; a reference to code is not followed."""
    if isinstance(name, str) and (name in OPTIMIZERS or _is_function(name)):
        return
    known = ", ".join(sorted(OPTIMIZERS))
    got = repr(name) if isinstance(name, str | None) else f"an object of {type(name).__name__}"
    raise ConfigError(
        f"optimizer must be one of {known}, FILE.py:function or a function of parameter groups, but got {got}."
    )


def _is_function(text: str) -> bool:
    """Whether a text names a function of parameter groups: one of a file, or of an installed package."""
    if OPTIMIZER_FUNCTIONS.code(text):
        return True
    return bool(text.strip()) and OPTIMIZER_FUNCTIONS.parse(text).name in OPTIMIZER_FUNCTIONS


def named_optimizer(name: str, groups: Sequence[dict[str, Any]], **numbers: float) -> torch.optim.Optimizer:
    """An optimizer of parameter groups, each with its ``params`` and its first ``lr``.

    Numbers such as ``momentum`` that the optimizer does not have are left out; a function of a file has its own.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> made = named_optimizer("adamw", [{"params": [weight], "lr": 0.1}], momentum=0.9, weight_decay=0.5)
    >>> type(made).__name__, made.param_groups[0]["lr"], made.param_groups[0]["weight_decay"]
    ('AdamW', 0.1, 0.5)
    """
    if name not in OPTIMIZERS:  # a function of one's own has its numbers itself
        made: torch.optim.Optimizer = OPTIMIZER_FUNCTIONS.bind(name)(list(groups))
        return made
    kind = OPTIMIZERS[name]
    # One kernel for all parameters, where the optimizer has that.
    taken = inspect.signature(kind).parameters
    options: dict[str, Any] = {key: value for key, value in {**numbers, "foreach": True}.items() if key in taken}
    return kind(list(groups), **options)


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimizer of a network. With SGD, parameters without a gradient keep their value and their momentum."""
    return recipe.make_optimizer([{"params": list(network.parameters()), "lr": recipe.learning_rate}])


def group_rates(optimizer: torch.optim.Optimizer, recipe: Recipe) -> list[float]:
    """For each parameter group the factor of the recipe's learning rate that it was made with; mostly one.

    An optimizer of one's own may have groups that learn faster or slower than others. They are to be read before the
    first step, which writes what the schedule makes of them.

    >>> weight, bias = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    >>> from ramet.training import Recipe
    >>> optimizer = torch.optim.SGD([{"params": [weight], "lr": 0.2}, {"params": [bias], "lr": 2.0}])
    >>> group_rates(optimizer, Recipe(learning_rate=0.2))
    [1.0, 10.0]
    """
    return [float(group["lr"]) / recipe.learning_rate for group in optimizer.param_groups]
