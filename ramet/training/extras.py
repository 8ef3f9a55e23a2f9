"""What a recipe asks of a network besides its outputs: drop-path, and the loss of an auxiliary classifier.

A network offers them by two methods, either of which it may lack. Those that ramet makes of found cells have both.

- ``set_drop_path(probability)``, of the network or of modules in it: how probably a path is left out for a sample, in
  training. What is drawn must come from torch's generators, which follow from the training's seed and are saved.
- ``with_auxiliary(x)``, of the network: its outputs, and those of a second classifier further down. A network whose
  attribute ``auxiliary`` is ``None`` has been made without that classifier.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ramet.training.functions import Loss
from ramet.training.outputs import output_of
from ramet.training.recipe import Recipe


class UnusedRecipeWarning(UserWarning):
    """A recipe asks for what a network has not: it is trained without."""


class Extras:
    """Drop-path and the auxiliary loss of one training; says so once if the network has not what the recipe asks for.

    Args:
        recipe: its ``drop_path`` and ``auxiliary_weight``.
        network: what is trained, or holds it.
        one_head: whether the classifier further down has the classes that are trained, which it has not where tasks
            have heads of their own.

    >>> class Twice(nn.Linear):
    ...     def with_auxiliary(self, x):
    ...         return self(x), 2 * self(x)
    >>> extras = Extras(Recipe(auxiliary_weight=0.5), Twice(2, 1))
    >>> x = Tensor([[1.0, 2.0]])
    >>> total = extras.loss(x, x, lambda outputs, targets: outputs.sum())
    >>> bool(total == 2 * extras.network(x).sum())
    True
    """

    def __init__(self, recipe: Recipe, network: Any, *, one_head: bool = True) -> None:
        self.network, self.weight, self.probability = network, recipe.auxiliary_weight, recipe.drop_path
        modules = network.modules() if isinstance(network, nn.Module) and self.probability else ()
        self._dropping = [module for module in modules if callable(getattr(module, "set_drop_path", None))]
        is_asked = self.weight and one_head and getattr(network, "auxiliary", network) is not None
        self._both: Callable[..., Any] | None = getattr(network, "with_auxiliary", None) if is_asked else None
        missing = []
        if self.probability and not self._dropping:
            missing.append(f"drop_path of {self.probability:g} (it has no set_drop_path)")
        if self.weight and self._both is None:
            why = "it has no with_auxiliary" if one_head else "tasks have heads of their own"
            missing.append(f"auxiliary_weight of {self.weight:g} ({why})")
        if missing:
            warnings.warn(
                f"{type(network).__name__} is trained without the recipe's {' and '.join(missing)}.",
                UnusedRecipeWarning,
                stacklevel=3,
            )

    def start(self, share: float) -> None:
        """Let drop-path be as probable as it is once a share of the training is done: it rises along a line from 0."""
        for module in self._dropping:
            module.set_drop_path(self.probability * share)  # type: ignore[operator]

    def loss(self, x: Tensor, y: Tensor, of_outputs: Loss, *arguments: Any) -> Tensor:
        """The loss of the network's outputs, and at its weight that of its auxiliary classifier's, on a mini-batch."""
        if self._both is None:
            return of_outputs(output_of(self.network(x, *arguments)), y)
        outputs, beside = self._both(x, *arguments)
        return of_outputs(outputs, y) + self.weight * of_outputs(beside, y)
