"""Metrics by name: what a network is measured by once it is trained, exact over batches of any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional

from ramet.errors import ConfigError, RametError, RunError, told
from ramet.training.functions import Loss
from ramet.training.outputs import classes_last, like_targets


@dataclass(frozen=True)
class Metric:
    """One number for the outputs of a network and their targets.

    What batches add up to is summed; the number is made of the sums and of all targets, so that one that is no mean
    over samples, such as r2, does not depend on how the samples were cut.

    Args:
        name: what it is called in records and reports.
        value: the number, from the sums, or without ``sums`` from all outputs, [samples, ...]; and all targets.
        sums: what a batch of outputs and targets adds, of any shape; without it all outputs are kept on the CPU.
        higher_is_better: whether a network with a higher value is better.
        is_share: whether it is a share of something, written as a percentage.
        targets: what it is for: ``classes`` (whole numbers), ``numbers`` or ``any``.

    >>> import torch
    >>> worst = Metric("worst error", lambda outputs, targets: (outputs - targets).abs().max(), higher_is_better=False)
    >>> worst(torch.tensor([1.0, 5.0]), torch.tensor([1.5, 2.0]))
    3.0
    """

    name: str
    value: Callable[[Tensor, Tensor], Any]
    sums: Callable[[Tensor, Tensor], Tensor] | None = None
    higher_is_better: bool = True
    is_share: bool = False
    targets: Literal["classes", "numbers", "any"] = "any"

    def __call__(self, outputs: Tensor, targets: Tensor) -> float:
        """The number of outputs, [samples, ...], and their targets, [samples, ...]."""
        return self.result(outputs if self.sums is None else self.sums(outputs, targets).double(), targets)

    def result(self, gathered: Tensor, targets: Tensor) -> float:
        """The number of what was gathered: the sums over all batches, or all outputs.

        Raises:
            ConfigError: a function of one's own raises, or gives something else than a number.
            RunError: the number is NaN.
        """
        try:
            found = self.value(gathered, targets)
        except (RametError, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever a function of the user's own raises
            raise ConfigError(f"a metric must run, but {self.name} raises {told(error)}") from error
        if isinstance(found, Tensor):
            if found.numel() != 1:
                raise ConfigError(f"a metric must be one number, but {self.name} has shape {list(found.shape)}.")
            found = found.item()
        if isinstance(found, bool) or not isinstance(found, Real):
            raise ConfigError(f"a metric must be one number, but {self.name} gives {type(found).__name__}.")
        if math.isnan(found):
            raise RunError(f"a metric must be a number, but {self.name} is NaN.")
        return float(found)

    def score(self, value: float) -> float:
        """The value as a score, of which higher is better."""
        return value if self.higher_is_better else -value

    @property
    def is_accuracy(self) -> bool:
        """Whether it is the accuracy, of which nothing needs to be said."""
        return (self.name, self.higher_is_better, self.is_share) == ("accuracy", True, True)

    def told(self) -> dict[str, Any]:
        """Its name, which values are better, and whether it is a share, as JSON values."""
        return {"name": self.name, "higher_is_better": self.higher_is_better, "is_share": self.is_share}

    def described(self) -> dict[str, Any]:
        """What records say of it: nothing of the accuracy, as in earlier versions."""
        return {} if self.is_accuracy else {"metric": self.told()}

    def check(self, targets: Tensor) -> None:
        """Refuse targets that the metric is not for.

        Raises:
            ConfigError: they are of the other kind.
        """
        kind = "numbers" if targets.is_floating_point() else "classes"
        if self.targets not in ("any", kind):
            raise ConfigError(f"{self.name} is a metric of {self.targets}, but the targets are {kind}.")


def named_metric(function: Callable[[Tensor, Tensor], Any]) -> Metric:
    """A metric of a function of one's own, called once with all outputs and all targets.

    It says by an attribute ``higher_is_better`` if lower is better; a ``Metric`` is taken as it is.
    """
    if isinstance(function, Metric):
        return function
    inner = getattr(function, "func", function)  # a partial's function
    name = str(getattr(inner, "__name__", type(inner).__name__)).replace("_", "-")
    return Metric(name, function, higher_is_better=bool(getattr(inner, "higher_is_better", True)))


def accuracy() -> Metric:
    """The share of samples whose largest logit is the label's; of tokens, where each has a label."""

    def correct(outputs: Tensor, targets: Tensor) -> Tensor:
        return (classes_last(outputs, targets).argmax(dim=-1) == targets).sum()

    return Metric("accuracy", _mean, correct, is_share=True, targets="classes")


def top(k: int = 5) -> Metric:
    """The share of samples (or tokens) whose label is among the largest logits.

    Args:
        k: how many logits count.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"k of top must be a whole number of at least 1, but got {k!r}.")

    def among(outputs: Tensor, targets: Tensor) -> Tensor:
        logits = classes_last(outputs, targets)
        if k > logits.shape[-1]:
            raise ConfigError(f"k of top must be at most the {logits.shape[-1]} classes, but got {k}.")
        return (logits.topk(k, dim=-1).indices == targets.unsqueeze(-1)).sum()

    return Metric(f"top-{k} accuracy", _mean, among, is_share=True, targets="classes")


def squared_error() -> Metric:
    """The mean squared error of numbers."""

    def squares(outputs: Tensor, targets: Tensor) -> Tensor:
        return _errors(outputs, targets).square().sum()

    return Metric("squared error", _mean, squares, higher_is_better=False, targets="numbers")


def absolute_error() -> Metric:
    """The mean absolute error of numbers."""

    def sizes(outputs: Tensor, targets: Tensor) -> Tensor:
        return _errors(outputs, targets).abs().sum()

    return Metric("absolute error", _mean, sizes, higher_is_better=False, targets="numbers")


def r2() -> Metric:
    r"""The share of the targets' variance that is explained; of several numbers a sample, the mean over them.

    ``1 - sum (y - output)^2 / sum (y - mean y)^2``: 1 is perfect, 0 as good as the mean of the targets, and it has no
    lower end.
    """

    def squares(outputs: Tensor, targets: Tensor) -> Tensor:
        return _errors(outputs, targets).square().flatten(1).sum(0)  # [numbers a sample]

    def explained(residual: Tensor, targets: Tensor) -> float:
        columns = _columns(targets)
        spread = (columns - columns.mean(0)).square().sum(0)
        if not bool((spread > 0).all()):
            place = int((spread == 0).nonzero()[0])
            raise ConfigError(
                f"r2 needs targets that differ, but all {len(columns)} are {float(columns[0, place]):g}; "
                "squared-error needs none."
            )
        return float((1 - residual / spread).mean())

    return Metric("R²", explained, squares, targets="numbers")


def perplexity() -> Metric:
    """The exponential of the mean cross-entropy of a token (or sample): among how many it is as if it had to guess."""
    return Metric(
        "perplexity",
        lambda total, targets: _exponential(_mean(total, targets)),
        _cross_entropies,
        higher_is_better=False,
        targets="classes",
    )


def bits() -> Metric:
    """The mean cross-entropy of a token (or sample) in bits."""
    return Metric(
        "bits per token",
        lambda total, targets: _mean(total, targets) / math.log(2),
        _cross_entropies,
        higher_is_better=False,
        targets="classes",
    )


def loss(of: Loss) -> Metric:
    """The recipe's own loss, as a mean over samples.

    Args:
        of: the loss, which is the mean over a batch.
    """
    return Metric(
        "loss",
        lambda total, targets: float(total) / len(targets),
        lambda outputs, targets: of(outputs, targets).detach().cpu().double() * len(targets),
        higher_is_better=False,
    )


def _mean(total: Tensor, targets: Tensor) -> float:
    """Over all targets: samples, tokens, or numbers of samples."""
    return float(total) / targets.numel()


def _columns(values: Tensor) -> Tensor:
    """Numbers in double precision, [samples, numbers a sample]; not every device has it."""
    return values.detach().cpu().double().flatten(1) if values.ndim > 1 else values.detach().cpu().double()[:, None]


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return _columns(like_targets(outputs, targets)) - _columns(targets)


def _cross_entropies(outputs: Tensor, targets: Tensor) -> Tensor:
    logits = classes_last(outputs, targets)
    each = functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), reduction="none")
    return each.detach().cpu().double().sum()


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
