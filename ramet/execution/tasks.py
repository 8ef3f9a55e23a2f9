"""One independent piece of work: a function by name, and plain arguments; and how it says how far it is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ramet.errors import ConfigError
from ramet.runs.encoding import JSON, plain


@dataclass(frozen=True)
class WorkItem:
    """A call ``function(context, **arguments)`` that depends on nothing else and gives JSON.

    A task may be run more than once, when its worker dies or the run is resumed, so it has to give the same result each
    time; a long one keeps checkpoints of its own. It must not change the context, which others share.

    Attributes:
        key: The name of the task, unique among those that run together; it seeds torch's global generator too.
        function: A function at the top of a module, so that another process can import it.
        arguments: JSON; large things such as data belong into the context, which is sent once.
        cost: How long it takes, in any unit; expensive tasks start first, and the progress bar counts them by it.

    Raises:
        ConfigError: If the function cannot be imported by its name, the key is empty, or the cost is not positive.
        TypeError: If the arguments are not JSON.
    """

    key: str
    function: Callable[..., JSON]
    arguments: Mapping[str, JSON] = field(default_factory=dict, hash=False)
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigError("the key of a task must not be empty.")
        if not self.cost > 0:
            raise ConfigError(f"the cost of a task must be positive, but {self.key!r} has {self.cost}.")
        if not _is_importable(self.function):
            raise ConfigError(
                f"the function of a task must stand at the top of a module, but {self.key!r} has {self.function!r}."
            )
        object.__setattr__(self, "arguments", plain(self.arguments, f"the arguments of task {self.key!r}"))

    def call(self, context: object) -> Any:
        """Run the task here, and check that its result is JSON."""
        return plain(self.function(context, **self.arguments), f"the result of task {self.key!r}")


def _is_importable(function: Callable[..., JSON]) -> bool:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    try:
        return attrgetter(function.__qualname__)(module) is function
    except AttributeError:
        return False


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
