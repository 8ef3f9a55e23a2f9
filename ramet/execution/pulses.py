"""How a running task says how far it is, wherever it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

_listener: Callable[[float], None] | None = None


def pulse(fraction: float) -> None:
    """Say how much of the running task is done, from 0 to 1, for the progress bar; outside a task it does nothing.

    It may be called as often as one likes, and has no influence on results.
    """
    if _listener is not None:
        _listener(min(max(float(fraction), 0.0), 1.0))


@contextlib.contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Send the pulses of the block to a listener; an executor wraps each task in this."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before
