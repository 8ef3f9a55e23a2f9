"""The optimizers of torch by name, with the numbers of a recipe that each of them takes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ramet.errors import ConfigError

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
    """Raise a ``ConfigError`` for a name that no optimizer has."""
    if not isinstance(name, str) or name not in OPTIMIZERS:
        known = ", ".join(sorted(OPTIMIZERS))
        got = repr(name) if isinstance(name, str | None) else f"an object of {type(name).__name__}"
        raise ConfigError(f"optimizer must be one of {known} or a function of parameter groups, but got {got}.")


def named_optimizer(name: str, groups: Sequence[dict[str, Any]], **numbers: float) -> torch.optim.Optimizer:
    """An optimizer of parameter groups, each with its ``params`` and its first ``lr``.

    Numbers such as ``momentum`` that the optimizer does not have are left out.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> made = named_optimizer("adamw", [{"params": [weight], "lr": 0.1}], momentum=0.9, weight_decay=0.5)
    >>> type(made).__name__, made.param_groups[0]["lr"], made.param_groups[0]["weight_decay"]
    ('AdamW', 0.1, 0.5)
    """
    kind = OPTIMIZERS[name]
    # One kernel for all parameters, where the optimizer has that.
    taken = inspect.signature(kind).parameters
    options: dict[str, Any] = {key: value for key, value in {**numbers, "foreach": True}.items() if key in taken}
    return kind(list(groups), **options)


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimizer of a network. With SGD, parameters without a gradient keep their value and their momentum."""
    return recipe.make_optimizer([{"params": list(network.parameters()), "lr": recipe.learning_rate}])
