"""How anything is trained: the numbers of one training, its optimizer, its schedule, its loss, what is done to a batch.

Every loop takes a recipe and asks it for what it needs, so that an option is added here and nowhere else: a field with
a default that changes nothing, its rule in ``__post_init__``, and the method or the table that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self

from ramet.errors import ConfigError
from ramet.fields import option
from ramet.registry.functions import FunctionRegistry
from ramet.registry.references import anchored_parts
from ramet.runs.encoding import Json
from ramet.training.registry import AUGMENTATIONS, LOSSES, METRICS, OPTIMIZER_FUNCTIONS, SCHEDULES

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ramet.training.functions import Augmentation, Loss, MetricFunction, OptimizerFactory, Schedule
    from ramet.training.metrics import Metric


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
        final_learning_rate: the learning rate that the cosine ends at; other schedules do not use it. A default above
            ``learning_rate`` gives way to 0.
        momentum: of the optimizers that have one: SGD and RMSprop.
        weight_decay: the optimizer's weight decay.
        clip_norm: the largest norm of the whole gradient, or none.
        optimizer: the name of an optimizer of ``torch.optim``, in lower case, FILE.py:function or a function of
            parameter groups, each with ``params`` and ``lr``; groups keep the ratio of their learning rates.
        undecayed: which parameters have no weight decay: none, or vectors (biases and the scales of norms).
        schedule: cosine, constant, linear, step, one-cycle, ... (ramet list schedule), with options after a colon; or
            a function of a step's number and the number of steps that gives the factor of ``learning_rate``.
        warmup: the share of the training in which the learning rate first rises, along a line; the schedule follows.
        loss: cross-entropy, squared-error, huber, ... (ramet list loss), FILE.py:function or a function of outputs and
            targets; by default the cross-entropy for targets that are integers and the squared error for others.
        metric: what a trained network is measured by: accuracy, top:5, squared-error, absolute-error, r2, perplexity,
            bits, loss (ramet list metric), FILE.py:function or a function of all outputs and targets that gives a
            number; by default the accuracy for targets that are integers and r2 for others (the loss, where that is a
            function of one's own or binary).
        augment: what is done to each training batch: crop, flip, cutout, mixup, ... (ramet list augmentation), joined
            by +, with options after a colon; or a function ``(x, y, generator) -> (x, y)``. What it draws follows from
            the training's seed and the number of the step.
        average: the weights that a training ends with: ema:DECAY or tail:SHARE, an average over its steps or over its
            last ones; by default those of the last step.
        precision: float32, or bfloat16 for losses and layers where the device has it.
        compile: run the network compiled; it pays for long trainings of one network.
        drop_path: the probability that a path is left out for a sample at the end of a training; it rises along a line
            from 0. Of networks that have ``set_drop_path``: of a search, what it found. 0.2 in DARTS.
        auxiliary_weight: weight of the loss of a second classifier further down. Of networks that have
            ``with_auxiliary``: of a search, what it found, for DARTS' and ENAS' cells. 0.4 in DARTS.
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
    undecayed: Literal["none", "vectors"] = "none"
    schedule: str | Schedule = option("cosine", kind=str)
    warmup: float = 0.0
    loss: str | Loss | None = option(None, kind=str)
    metric: str | MetricFunction | None = option(None, kind=str)
    augment: str | Augmentation | None = option(None, kind=str)
    average: str | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    drop_path: float = 0.0
    auxiliary_weight: float = 0.0
    accumulate: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate"):
            value = getattr(self, name)
            is_whole = isinstance(value, Integral) and not isinstance(value, bool)
            _require(is_whole, f"{name} must be a whole number", repr(value))
        for name in (*NUMBERS, "clip_norm"):
            value = getattr(self, name)
            is_number = isinstance(value, Real) or (value is None and name == "clip_norm")
            _require(is_number, f"{name} must be a number", repr(value))
        _require(self.epochs >= 1, "epochs must be at least 1", self.epochs)
        _require(
            self.batch_size >= 2, "batch_size must be at least 2, because batch norm needs two samples", self.batch_size
        )
        _require(0 < self.learning_rate < math.inf, "learning_rate must be positive and finite", self.learning_rate)
        if self.final_learning_rate == type(self).final_learning_rate > self.learning_rate:
            object.__setattr__(self, "final_learning_rate", 0.0)
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
        _require(self.undecayed in ("none", "vectors"), "undecayed must be none or vectors", repr(self.undecayed))
        _require(0 <= self.warmup < 1, "warmup must lie in [0, 1)", self.warmup)
        _require(0 <= self.drop_path < 1, "drop_path must lie in [0, 1)", self.drop_path)
        _require(
            0 <= self.auxiliary_weight < math.inf,
            "auxiliary_weight must be finite and not negative",
            self.auxiliary_weight,
        )
        _require(self.precision in ("float32", "bfloat16"), "precision must be float32 or bfloat16", self.precision)
        for registry, source in self._functions():
            registry.check(source)
        if self.average is not None:
            _require(isinstance(self.average, str), "average reads ema:DECAY or tail:SHARE", repr(self.average))
            from ramet.training.averaging import check_average

            check_average(self.average)
        _require(
            1 <= self.accumulate <= self.batch_size // 2,
            "accumulate must lie between 1 and half of batch_size, because batch norm needs two samples",
            self.accumulate,
        )

    def _functions(self) -> list[tuple[FunctionRegistry, Any]]:
        """What is named or given as a function, each with its registry."""
        pairs = [
            (SCHEDULES, self.schedule),
            (LOSSES, self.loss),
            (METRICS, self.metric),
            (AUGMENTATIONS, self.augment),
        ]
        return [(registry, source) for registry, source in pairs if source is not None]

    def code(self) -> list[str]:
        """The references to code in the recipe's texts; a recipe that data hold needs trust for them."""
        named = [(OPTIMIZER_FUNCTIONS, self.optimizer), *self._functions()]
        return [reference for registry, source in named for reference in registry.code(source)]

    def anchored(self) -> Self:
        """The recipe with the files of its functions named from the root."""
        texts: dict[str, Any] = {
            name: anchored_parts(source, registry)
            for name, registry in (
                ("schedule", SCHEDULES),
                ("loss", LOSSES),
                ("metric", METRICS),
                ("augment", AUGMENTATIONS),
            )
            if isinstance(source := getattr(self, name), str)
        }
        if isinstance(self.optimizer, str) and OPTIMIZER_FUNCTIONS.code(self.optimizer):
            texts["optimizer"] = anchored_parts(self.optimizer)
        return replace(self, **texts)

    def refuse(self, *names: str, because: str) -> None:
        """Say that a loop has no use for some fields, if one of them differs from its default.

        Raises:
            ConfigError: one does.

        >>> Recipe(average="ema").refuse("average", because="steps are measured")
        Traceback (most recent call last):
        ramet.errors.ConfigError: average must be None here, because steps are measured, but got 'ema'.
        """
        defaults = {field.name: field.default for field in fields(Recipe)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise ConfigError(
                    f"{name} must be {defaults[name]} here, because {because}, but got {getattr(self, name)!r}."
                )

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """The learning rate of a step, counted from 0, of a training of ``num_steps`` steps.

        >>> recipe = Recipe(learning_rate=0.1, final_learning_rate=0.0)
        >>> [round(recipe.learning_rate_at(step, 4), 3) for step in range(5)]
        [0.1, 0.085, 0.05, 0.015, 0.0]
        """
        first = round(self.warmup * num_steps)
        if step < first:
            return self.learning_rate * (step + 1) / (first + 1)
        step, num_steps = step - first, num_steps - first
        if isinstance(self.schedule, str) and SCHEDULES.parse(self.schedule).name in SCHEDULES:
            return float(SCHEDULES.bind(self.schedule)(self, step, num_steps))
        factor = SCHEDULES.bind(self.schedule)(step, num_steps)
        if not (isinstance(factor, int | float) or getattr(factor, "ndim", 1) == 0) or not 0 <= factor < math.inf:
            raise ConfigError(
                f"a schedule must give a finite number of at least 0, but gives {factor!r:.40} for step {step}."
            )
        return self.learning_rate * float(factor)

    def make_optimizer(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimizer of parameter groups, each with its ``params`` and its first ``lr``."""
        if self.undecayed == "vectors":
            groups = [part for group in groups for part in _by_decay(group)]
        if callable(self.optimizer):
            return self.optimizer(list(groups))
        from ramet.training.optimizers import named_optimizer

        return named_optimizer(self.optimizer, groups, momentum=self.momentum, weight_decay=self.weight_decay)

    def loss_for(self, targets: Tensor) -> Loss:
        """What is minimised for these targets."""
        from ramet.training.losses import cross_entropy, squared_error

        if self.loss is not None:
            return LOSSES.bind(self.loss)
        return squared_error if targets.is_floating_point() else cross_entropy

    @property
    def takes_logits(self) -> bool:
        """Whether the loss of classes is the cross-entropy, which takes logits."""
        if self.loss is None:
            return True
        return isinstance(self.loss, str) and LOSSES.parse(self.loss).name == "cross-entropy"

    def metric_for(self, targets: Tensor, loss: Loss | None = None) -> Metric:
        """What networks are measured by on these targets.

        Args:
            targets: [samples, ...]; integers are classes.
            loss: what is minimised, where it is not the recipe's own: it is the metric, too, if the recipe has none.

        Raises:
            ConfigError: the metric is not for such targets.
        """
        from ramet.training.metrics import named_metric

        source = self.metric
        if source is None:
            source = "loss" if loss is not None else self._usual_metric(targets)
        made = METRICS.bind(source)
        if isinstance(source, str) and (name := METRICS.parse(source).name) in METRICS:
            made = made(loss or self.loss_for(targets)) if name == "loss" else made()
        metric = named_metric(made)
        metric.check(targets)
        return metric

    def _usual_metric(self, targets: Tensor) -> str:
        if not targets.is_floating_point():
            return "accuracy"
        # What a loss of one's own wants of outputs is known to it alone; r2 wants the targets themselves.
        return "r2" if self.tells_targets else "loss"

    @property
    def tells_targets(self) -> bool:
        """Whether outputs for targets that are numbers are meant to be these numbers."""
        if self.loss is None:
            return True
        return isinstance(self.loss, str) and LOSSES.parse(self.loss).name in ERRORS

    def batch(self, x: Tensor, y: Tensor, indices: Tensor, *, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """The inputs and targets of a step's samples, [batch, ...] and [batch, ...], transformed."""
        x, y = x[indices], y[indices]
        if self.augment is not None:
            from ramet.seeding import torch_generator

            x, y = self.augmented(x, y, torch_generator(seed, "transform", step))
        return x, y

    def augmented(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch as the recipe changes it."""
        if self.augment is None:
            return x, y
        from ramet.training.augmentation import augmentation_of, check_augmented

        return check_augmented(x, y, augmentation_of(self.augment)(x, y, generator))

    def to_json(self) -> Json:
        """The fields as JSON values. A function is described by its reference, from which no recipe is made again."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _reference(value) if callable(value) else value for name, value in values.items()}


NUMBERS = (
    "learning_rate",
    "final_learning_rate",
    "momentum",
    "weight_decay",
    "warmup",
    "drop_path",
    "auxiliary_weight",
)
"""The fields that are numbers, whole or not."""

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

ERRORS = ("squared-error", "absolute-error", "huber")
"""The losses whose outputs are meant to be the targets."""

Settings = Recipe
"""The name that a recipe had when it was numbers alone."""


def _by_decay(group: dict[str, Any]) -> list[dict[str, Any]]:
    """A group as one of matrices and one of vectors, which have no weight decay; an empty one is left out."""
    matrices = [param for param in group["params"] if param.ndim > 1]
    vectors = [param for param in group["params"] if param.ndim <= 1]
    parts = [{**group, "params": matrices}, {**group, "params": vectors, "weight_decay": 0.0}]
    return [part for part in parts if part["params"]]


def _reference(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def _require(holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"{rule}, but got {value}.")
