"""The one tensor that a loss is taken of, whatever a network returns around it, in the shape of its targets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ramet.errors import ConfigError


def logits_of(result: Any) -> Tensor | None:
    """The ``logits`` of what a network returns, as models of Hugging Face name them, or nothing."""
    logits = result.get("logits") if isinstance(result, Mapping) else getattr(result, "logits", None)
    return logits if isinstance(logits, Tensor) else None


def output_of(result: Any) -> Tensor:
    """The tensor that a network's result stands for: itself, its ``logits``, or the only tensor in it.

    A recurrent layer's state and a transformer's cache lie deeper, in a tuple or an object of their own, and do not
    count.

    Raises:
        ConfigError: the result has several tensors, or none.

    >>> from torch import tensor
    >>> output_of({"loss": tensor(0.5), "logits": tensor([1.0, 2.0])})
    tensor([1., 2.])
    >>> output_of((tensor([3.0]), (tensor([0.0]), tensor([0.0]))))
    tensor([3.])
    """
    if isinstance(result, Tensor):
        return result
    if (logits := logits_of(result)) is not None:
        return logits
    named: dict[Any, Any] = {}
    if isinstance(result, Mapping):
        named = dict(result)
    elif isinstance(result, list | tuple):
        named = dict(enumerate(result))
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    held = f"tensors {', '.join(map(str, tensors))}" if tensors else "no tensor"
    raise ConfigError(
        f"a network must give one tensor, or its logits by that name, but got {type(result).__name__} with {held}."
    )


class SoftmaxWarning(UserWarning):
    """A network gives probabilities where a loss takes logits: it learns, but slowly and not as far."""


def warn_of_probabilities(outputs: Tensor, targets: Tensor) -> None:
    """Say so if outputs that a cross-entropy takes for logits are probabilities already.

    A cross-entropy has a softmax of its own, and that of numbers between 0 and 1 can never be sure of anything.

    >>> from torch import ones, zeros
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_probabilities(ones(4, 5) / 5, zeros(4).long())
    ...     warn_of_probabilities(ones(4, 5), zeros(4).long())
    >>> len(caught)
    1
    """
    if targets.is_floating_point() or outputs.ndim < 2:
        return
    classes = classes_last(outputs, targets).detach().float()
    is_whole = bool(((classes.sum(-1) - 1).abs() < 1e-3).all())  # half precision included
    if classes.shape[-1] > 1 and is_whole and bool((classes >= 0).all()):
        warnings.warn(
            "a network should give logits, which the cross-entropy makes probabilities of, but its outputs are not "
            "negative and add up to 1 already: leave out the softmax at its end.",
            SoftmaxWarning,
            stacklevel=3,
        )


def classes_last(outputs: Tensor, targets: Tensor) -> Tensor:
    """Logits with the classes on their last axis, [..., classes], for targets that are classes, [...].

    Of a sequence both [batch, length, classes] and torch's own [batch, classes, length] are taken; where the length is
    the number of classes, it is the first.

    Raises:
        ConfigError: the shapes do not fit.

    >>> from torch import zeros
    >>> classes_last(zeros(2, 5, 3), zeros(2, 3)).shape
    torch.Size([2, 3, 5])
    """
    last = outputs.ndim > 1 and outputs.shape[:-1] == targets.shape
    second = outputs.ndim > 2 and (len(outputs), *outputs.shape[2:]) == tuple(targets.shape)
    if last and (outputs.ndim == 3 or not second):
        return outputs
    if second:
        return outputs.movedim(1, -1)
    raise ConfigError(
        "a network must give a logit for each class of each target, targets of shape "
        f"{list(targets.shape)}, but its outputs have shape {list(outputs.shape)}."
    )


def like_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs in the shape of targets that are numbers; a network may give [batch, 1] for targets [batch].

    Raises:
        ConfigError: the shapes do not fit; torch would stretch the one over the other.
    """
    if outputs.shape == targets.shape:
        return outputs
    if outputs.shape == (*targets.shape, 1):
        return outputs.squeeze(-1)
    if targets.shape == (*outputs.shape, 1):
        return outputs.unsqueeze(-1)
    raise ConfigError(
        f"a network must give a number for each target, of shape {list(targets.shape)}, but its outputs have shape "
        f"{list(outputs.shape)}."
    )
