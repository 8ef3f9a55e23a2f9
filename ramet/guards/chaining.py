"""Guards side by side, and the guard that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.names import StepSizes, require_state
from ramet.params import Params


class NoGuard(Guard):
    """Plain training: every method returns at once."""

    needs_gradients = False

    @classmethod
    def for_tasks(cls, strength: float) -> NoGuard:
        """A guard without a strength."""
        return cls()

    def step(self, params: Params, step_sizes: StepSizes) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def remember(self, params: Params, fisher: Params | None = None) -> None:
        """Nothing."""

    def before_step(self, path: Params) -> None:
        """Nothing."""

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Nothing."""

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Nothing."""

    def forget(self) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """No state."""
        return {}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Refuse any state: it belongs to another guard."""
        require_state(state)
        if state:
            raise ConfigError(f"NoGuard has no state, but got {sorted(state)[:3]}.")


class Chain(Guard):
    """Several guards, one after the other, in the order of the list.

    Each edits what the one before it left, both before the optimizer's step and after it. So a guard that must have the
    last word on the update, such as ``OrthogonalProjection``, is listed last.
    """

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.guards = tuple(guards)
        slowest = max(self.guards, key=lambda guard: guard.least_turn)
        self.least_turn, self.what_is_void = slowest.least_turn, slowest.what_is_void
        self.needs_gradients = any(guard.needs_gradients for guard in self.guards)

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.guards))})"

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        """Let every guard listen."""
        with ExitStack() as stack:
            for guard in self.guards:
                stack.enter_context(guard.watch(module))
            yield

    def loss(self, model: Any, loss_of: Callable[[Any], Tensor]) -> Tensor:
        """Each around the next one's."""
        for guard in self.guards:
            loss_of = partial(guard.loss, loss_of=loss_of)
        return loss_of(model)

    def start_epoch(self, epoch: int) -> None:
        """Tell every guard."""
        for guard in self.guards:
            guard.start_epoch(epoch)

    def report(self) -> dict[str, float]:
        """The figures of all guards, by the guard's place and the figure's name."""
        return {
            f"{place}.{key}": value for place, guard in enumerate(self.guards) for key, value in guard.report().items()
        }

    def held(self) -> set[str] | None:
        """What any of them knows; None if one goes by no names."""
        parts = [guard.held() for guard in self.guards]
        known = [part for part in parts if part is not None]
        return set().union(*known) if len(known) == len(parts) else None

    def before_step(self, path: Params) -> None:
        """Each in turn."""
        for guard in self.guards:
            guard.before_step(path)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Each in turn."""
        for guard in self.guards:
            guard.after_step(path, step_sizes)

    def undo_step(self, path: Params) -> None:
        """Each in turn, the last first."""
        for guard in reversed(self.guards):
            guard.undo_step(path)

    def discard(self) -> None:
        """Each in turn."""
        for guard in self.guards:
            guard.discard()

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Each in turn."""
        for guard in self.guards:
            guard.consolidate(path, fisher)

    def forget(self) -> None:
        """Each in turn."""
        for guard in self.guards:
            guard.forget()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The states of all guards, each key led by the guard's place."""
        states = [guard.state_dict() for guard in self.guards]
        return {f"{place}.{key}": tensor for place, state in enumerate(states) for key, tensor in state.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Give each guard its own."""
        require_state(state)
        parts: list[dict[str, torch.Tensor]] = [{} for _ in self.guards]
        for key, tensor in state.items():
            place, _, inner = key.partition(".")
            if not (place.isdigit() and int(place) < len(parts)):
                raise ConfigError(
                    f"a state for a chain of {len(parts)} guards is keyed by their places, but got {key!r}."
                )
            parts[int(place)][inner] = tensor
        for guard, part in zip(self.guards, parts, strict=True):
            guard.load_state_dict(part)


def chain(*guards: Guard) -> Guard:
    """The guards one after the other, as listed; none makes ``NoGuard``, and one is itself.

    List ``OrthogonalProjection`` last: it projects the whole update, also the pull of the guards before it.
    """
    for guard in guards:
        if not isinstance(guard, Guard):
            raise ConfigError(f"a chain is made of guards, but got {guard!r:.60}.")
    if not guards:
        return NoGuard()
    return guards[0] if len(guards) == 1 else Chain(guards)
