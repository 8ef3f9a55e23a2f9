"""The seam between a training loop and what keeps its updates from disturbing earlier models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.names import (
    StepSizes,
    on_path,
    plain_names,
    require_module,
    require_named,
    require_shapes,
    require_sizes,
)
from ramet.params import Params
from ramet.registry.lines import one_line


class Guard(ABC):
    """Keeps the update of one model from disturbing the models that were trained on the same weights before.

    A loop calls three methods, and knows nothing else about the guard it drives::

        with guard.watch(network):                     # inputs of the layers, for the guards that need them
            loss(network(x), y).backward()
        with guard.step(params, learning_rate):        # edits gradients before, and parameters after
            optimizer.step()
        guard.remember(params)                         # this model is finished: keep it

    The model being trained is known by its path: the parameters that have a gradient. Parameters without one are
    never read nor changed, so that a supernet's loop says nothing about architectures.

    With ``torch.amp.GradScaler`` call ``scaler.unscale_(optimizer)`` before ``step``, as for gradient clipping. A step
    that the scaler skips leaves the parameters as they are.

    An author of a guard writes ``before_step``, ``after_step``, ``consolidate``, ``forget``, ``state_dict`` and
    ``load_state_dict``, and where they are needed ``watch``, ``discard`` and ``undo_step``. Names arrive without the
    prefixes of wrappers, and only for the current path. The checks of ``ramet.testing.guards`` tell whether the guard
    keeps what this seam promises.
    """

    least_turn: int = 1
    """The fewest mini-batches of a model's turn with which the guard can act; see ``turns.check_turn``."""
    what_is_void: str = ""
    """Why it cannot act in shorter ones."""
    needs_gradients: bool = True
    """Whether ``remember`` looks at gradients, or at nothing but the path; a loop may then spare their computation."""

    @classmethod
    def for_tasks(cls, strength: float) -> Guard:
        """A guard of this kind for tasks that are learned one after the other, each to its end."""
        return cls(strength)  # type: ignore[call-arg]

    # What a loop calls.

    def watch(self, module: nn.Module) -> AbstractContextManager[None]:
        """Listen to the layers of a module while the block runs; a guard that needs no inputs does nothing."""
        require_module(module)
        return nullcontext()

    def loss(self, model: Any, loss_of: Callable[[Any], Tensor]) -> Tensor:
        """What is minimised in a step of a model, from a function that gives any model's loss on the mini-batch.

        A loop whose models have names (a supernet's architectures) calls this in the place of its own loss. All guards
        but those that train earlier models beside the current one give that model's loss as it is.
        """
        return loss_of(model)

    def step(self, params: Params, step_sizes: StepSizes) -> AbstractContextManager[None]:
        """Guard the optimizer's step, which is taken inside the block.

        The parameters come by name, with their gradients; see ``ramet.params.named_params``. The step size is the
        learning rate, or one for each name; see ``step_sizes`` for optimizers with momentum.
        """
        require_sizes(step_sizes)
        return self._around(on_path(params), step_sizes)

    @contextmanager
    def _around(self, path: Params, step_sizes: StepSizes) -> Iterator[None]:
        with torch.no_grad():
            self.before_step(path)
        try:
            yield
        except BaseException:
            with torch.no_grad():
                self.undo_step(path)
            raise
        with torch.no_grad():
            self.after_step(path, step_sizes)

    def remember(self, params: Params, fisher: Params | None = None) -> None:
        """Keep the model on the current path as one that later updates should not disturb.

        ``fisher`` is its squared gradients by name, from ``diagonal_fisher``; without it, guards that need them square
        the gradients that the parameters hold, which are those of the finished model's loss.
        """
        if fisher is None:
            path = on_path(params)
        else:
            require_named(params)
            if not isinstance(fisher, Mapping):
                raise ConfigError(f"Fisher information comes by name, but got a {type(fisher).__name__}.")
            fisher = dict(zip(plain_names(fisher), fisher.values(), strict=True))
            named = zip(plain_names(params), params.values(), strict=True)
            path = {name: param for name, param in named if name in fisher}
            require_shapes(path, fisher)
        with torch.no_grad():
            self.consolidate(path, fisher)

    def discard(self) -> None:  # noqa: B027 (most guards gather nothing)
        """Drop what was gathered inside ``watch`` since the last ``remember``: that model came to nothing."""

    def start_epoch(self, epoch: int) -> None:  # noqa: B027 (most guards have no schedule)
        """Tell the guard which epoch begins, counted from 0, for the guards that have a schedule."""

    def report(self) -> dict[str, float]:
        """Figures that say how much the guard holds at present, by name."""
        return {}

    def held(self) -> set[str] | None:
        """The plain names of the parameters of finished models that it knows again; None if it goes by no names."""
        return None

    def __repr__(self) -> str:
        return one_line(self)

    # What an author writes.

    @abstractmethod
    def before_step(self, path: Params) -> None:
        """Edit the gradients of the parameters on the path, in place."""

    @abstractmethod
    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Edit the parameters on the path, in place, after the optimizer has changed them."""

    def undo_step(self, path: Params) -> None:  # noqa: B027 (most guards change nothing before a step)
        """Take back what ``before_step`` did to the gradients, for the optimizer's step has failed."""

    @abstractmethod
    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Take what must be kept of the finished model; see ``remember``."""

    @abstractmethod
    def forget(self) -> None:
        """Drop everything that was remembered; needed after a growth that changed the shapes of parameters."""

    @abstractmethod
    def state_dict(self) -> dict[str, torch.Tensor]:
        """What the guard remembers, as a flat dictionary of contiguous tensors, fit for safetensors."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Remember what ``state_dict`` gave; raises ``ConfigError`` for the state of another kind of guard."""
