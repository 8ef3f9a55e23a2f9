"""States of optimizers that are nobody else's."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def cloned(value: Any) -> Any:
    """A nested state with tensors of its own: an optimizer hands out, and keeps, the very ones it updates."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: cloned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cloned(item) for item in value)
    return value
