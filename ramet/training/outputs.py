"""The one tensor that a loss is taken of, whatever a network returns around it."""

from __future__ import annotations

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
