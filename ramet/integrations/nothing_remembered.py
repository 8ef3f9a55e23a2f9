"""A guard that remembers nothing, in a trainer that will never tell it to: it is said, once the training begins."""

from __future__ import annotations

import warnings

from ramet.guards.base import Guard
from ramet.guards.turns import VoidGuardWarning


def warn_if_empty(guard: Guard) -> None:
    """Say that a guard has no finished model to keep; of guards that go by no names nothing is known."""
    if guard.held() == set():
        warnings.warn(
            f"{type(guard).__name__} remembers nothing, and so it keeps nothing in this training; call "
            "ramet.guards.remember_batches before it begins.",
            VoidGuardWarning,
            stacklevel=3,
        )
