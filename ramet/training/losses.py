"""Losses by name: functions of outputs and targets that give the mean over a batch."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ramet.errors import ConfigError
from ramet.training.outputs import classes_last, like_targets


def check_loss(value: object) -> Tensor:
    """What a loss gave, if a gradient can be taken of it.

    Raises:
        ConfigError: it is no tensor, or not one broken number, or depends on no parameter.
    """
    if not isinstance(value, Tensor):
        raise ConfigError(f"a loss must be a tensor of one number, but is {type(value).__name__}.")
    if value.ndim:
        raise ConfigError(f"a loss must be one number, the mean over a batch, but has shape {list(value.shape)}.")
    if not value.is_floating_point():
        raise ConfigError(f"a loss must be a floating-point number, but is {value.dtype}.")
    if not value.requires_grad:
        raise ConfigError("a loss must depend on the parameters, but has no gradient: it was detached, or is constant.")
    return value


def cross_entropy(outputs: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The cross-entropy of classes; for a sequence, of each of its tokens.

    Args:
        outputs: logits, shape [batch, classes], or for sequences [batch, length, classes] or [batch, classes, length].
        targets: classes, of the shape of outputs without that of the classes; or shares of the classes, shape
            [batch, k], where classes from k on have none.
        smoothing: the share of a target that is spread over all classes evenly.
    """
    if targets.is_floating_point():
        missing = outputs.shape[-1] - targets.shape[-1]
        targets = functional.pad(targets, (0, missing)) if missing > 0 else targets
    elif outputs.ndim > 2:
        outputs, targets = classes_last(outputs, targets).flatten(0, -2), targets.flatten()
    return functional.cross_entropy(outputs, targets, label_smoothing=smoothing)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error."""
    return functional.mse_loss(like_targets(outputs, targets), targets)


def absolute_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean absolute error."""
    return functional.l1_loss(like_targets(outputs, targets), targets)


def huber(outputs: Tensor, targets: Tensor, delta: float = 1.0) -> Tensor:
    """Squared where the error is small, absolute where it is large.

    Args:
        outputs: what the network gives.
        targets: what it should give.
        delta: where the one becomes the other.
    """
    return functional.huber_loss(like_targets(outputs, targets), targets, delta=delta)


def binary(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of labels of which a sample may have several.

    Args:
        outputs: a logit for each label, shape [batch, labels].
        targets: 0 or 1 for each, of the same shape; of a single label also [batch].
    """
    return functional.binary_cross_entropy_with_logits(like_targets(outputs, targets), targets.to(outputs.dtype))
