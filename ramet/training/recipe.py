"""How anything is trained: the numbers of one training, its optimizer, its schedule, its loss, what is done to a batch.

Every loop takes a recipe and asks it for what it needs, so that an option is added here and nowhere else: a field with
a default that changes nothing, its rule in ``__post_init__``, and the method or the table that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option
from ramet.runs.encoding import Json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ramet.training.functions import Loss, OptimizerFactory, Schedule, Transform


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one network is trained; the defaults are those of *Deeper insights into weight sharing*, section 3.1.

    SGD with momentum, its learning rate annealed by a cosine from ``learning_rate`` to ``final_learning_rate``.

    Departs from the paper: the cosine is followed step by step instead of epoch by epoch, so that a training of a
    few epochs is annealed as smoothly as one of 200.

    Args:
        epochs: passes over the training split.
        batch_size: samples in a mini-batch.
        learning_rate: the first step's learning rate.
        final_learning_rate: the learning rate that the cosine ends at; other schedules do not use it.
        momentum: of the optimizers that have one: SGD and RMSprop.
        weight_decay: the optimizer's weight decay.
        clip_norm: the largest norm of the whole gradient, or none.
        optimizer: the name of an optimizer of ``torch.optim``, in lower case, or a function of parameter groups.
        schedule: ``cosine``, ``constant``, or a function of a step's number and the number of steps that gives the
            factor of ``learning_rate``.
        loss: a function of outputs and targets; if none, the cross-entropy for targets that are integers and the mean
            squared error for others.
        transform: what is done to each training batch, ``(x, y, generator) -> (x, y)``; what it draws follows from the
            training's seed and the number of the step.
        accumulate: the micro-batches that a mini-batch is taken in, one after the other, for the sake of memory. The
            gradient is that of the whole, except where layers look at the batch: batch norm sees micro-batches.

    Raises:
        ConfigError: a number is out of its range, or a name is unknown.
    """

    epochs: int = 200
    batch_size: int = 256
    learning_rate: float = 0.025
    final_learning_rate: float = 0.001
    momentum: float = 0.9
    weight_decay: float = 1e-3
    clip_norm: float | None = None
    optimizer: str | OptimizerFactory = option("sgd", kind=str)
    schedule: str | Schedule = option("cosine", kind=str)
    loss: Loss | None = option(None, name=HIDDEN)
    transform: Transform | None = option(None, name=HIDDEN)
    accumulate: int = 1

    def __post_init__(self) -> None:
        _require(self.epochs >= 1, "epochs must be at least 1", self.epochs)
        _require(
            self.batch_size >= 2, "batch_size must be at least 2, because batch norm needs two samples", self.batch_size
        )
        _require(0 < self.learning_rate < math.inf, "learning_rate must be positive and finite", self.learning_rate)
        _require(
            0 <= self.final_learning_rate <= self.learning_rate,
            "final_learning_rate must lie between 0 and learning_rate",
            self.final_learning_rate,
        )
        _require(0 <= self.momentum < 1, "momentum must lie in [0, 1)", self.momentum)
        _require(0 <= self.weight_decay < math.inf, "weight_decay must not be negative", self.weight_decay)
        if self.clip_norm is not None:
            _require(self.clip_norm > 0, "clip_norm must be positive", self.clip_norm)
        if not callable(self.optimizer) and self.optimizer != "sgd":  # the default does not wait for torch
            from ramet.training.optimizers import check_optimizer

            check_optimizer(self.optimizer)
        rule = f"schedule must be {', '.join(SCHEDULES)} or a function"
        _require(callable(self.schedule) or self.schedule in SCHEDULES, rule, repr(self.schedule))
        for name in ("loss", "transform"):
            value = getattr(self, name)
            _require(value is None or callable(value), f"{name} must be a function or none", repr(value))
        _require(
            1 <= self.accumulate <= self.batch_size // 2,
            "accumulate must lie between 1 and half of batch_size, because batch norm needs two samples",
            self.accumulate,
        )

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """The learning rate of a step, counted from 0, of a training of ``num_steps`` steps.

        >>> recipe = Recipe(learning_rate=0.1, final_learning_rate=0.0)
        >>> [round(recipe.learning_rate_at(step, 4), 3) for step in range(5)]
        [0.1, 0.085, 0.05, 0.015, 0.0]
        """
        if isinstance(self.schedule, str):
            return SCHEDULES[self.schedule](self, step, num_steps)
        return self.learning_rate * self.schedule(step, num_steps)

    def make_optimizer(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimizer of parameter groups, each with its ``params`` and its first ``lr``."""
        if callable(self.optimizer):
            return self.optimizer(list(groups))
        from ramet.training.optimizers import named_optimizer

        return named_optimizer(self.optimizer, groups, momentum=self.momentum, weight_decay=self.weight_decay)

    def loss_for(self, targets: Tensor) -> Loss:
        """What is minimised for these targets."""
        if self.loss is not None:
            return self.loss
        from torch.nn.functional import cross_entropy, mse_loss

        return mse_loss if targets.is_floating_point() else cross_entropy

    def batch(self, x: Tensor, y: Tensor, indices: Tensor, *, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """The inputs and targets of a step's samples, [batch, ...] and [batch, ...], transformed."""
        x, y = x[indices], y[indices]
        if self.transform is not None:
            from ramet.seeding import torch_generator

            x, y = self.transform(x, y, torch_generator(seed, "transform", step))
        return x, y

    def to_json(self) -> Json:
        """The fields as JSON values. A function is described by its reference, from which no recipe is made again."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _reference(value) if callable(value) else value for name, value in values.items()}


FIRST_FIELDS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "final_learning_rate",
    "momentum",
    "weight_decay",
    "clip_norm",
)
"""The fields that old names of caches and studies were made of. A field that is added does not belong here."""

Settings = Recipe
"""The name that a recipe had when it was numbers alone."""


def _cosine(recipe: Recipe, step: int, num_steps: int) -> float:
    cosine = (1 + math.cos(math.pi * step / num_steps)) / 2
    return recipe.final_learning_rate + (recipe.learning_rate - recipe.final_learning_rate) * cosine


def _constant(recipe: Recipe, step: int, num_steps: int) -> float:
    return recipe.learning_rate


SCHEDULES: dict[str, Callable[[Recipe, int, int], float]] = {"cosine": _cosine, "constant": _constant}
"""The learning rate of a step by name; a schedule more is a row more."""


def _reference(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def _require(holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"{rule}, but got {value}.")
