"""A guard that an optimizer's steps are taken under, whichever loop takes them.

Trainers of others hide the line ``optimizer.step()``. What they cannot hide is the optimizer, and torch calls hooks
within its ``step``: after the last mini-batch of an accumulation, after gradients were averaged over processes,
unscaled and clipped, and only for a step that is taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, RunError
from ramet.guards.base import Guard
from ramet.guards.names import plain_names, step_sizes
from ramet.guards.turns import VoidGuardWarning
from ramet.params import named_params


class Attachment:
    """A guard on an optimizer; ``attach`` makes it. Leaving it as a block, or ``detach``, ends it."""

    def __init__(self, guard: Guard, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        stepped = {id(param) for group in optimizer.param_groups for param in group["params"]}
        warn_if_unknown(guard, network)
        # Where there are several optimizers, each step is about the parameters of its own.
        self._params = {name: param for name, param in named_params(network).items() if id(param) in stepped}
        _check_params(self._params, network)
        self._guard, self._sizes = guard, step_sizes(optimizer, self._params)
        self._open: AbstractContextManager[None] | None = None
        self._gradients: list[Tensor | None] = []
        self._hooks = [optimizer.register_step_pre_hook(self._before), optimizer.register_step_post_hook(self._after)]

    def __repr__(self) -> str:
        return f"Attachment({self._guard!r}, on {len(self._params)} parameters)"

    def detach(self) -> None:
        """Let the optimizer step freely again; a step that failed half-way leaves no trace in the gradients."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._abandon()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]] | None:
        self._abandon()
        if len(args) > 1 and args[1] is not None:  # the first is the optimizer
            return (args[0], self._around(optimizer, args[1]), *args[2:]), kwargs
        if kwargs.get("closure") is not None:
            return args, {**kwargs, "closure": self._around(optimizer, kwargs["closure"])}
        self._begin(optimizer)
        return None

    def _around(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure makes the gradients inside the step, and so the guard begins after it."""

        def guarded() -> Any:
            if self._open is not None:
                raise ConfigError(
                    "a guarded optimizer evaluates the loss once in a step, but "
                    f"{type(optimizer).__name__} does so again."
                )
            result = closure()
            self._begin(optimizer)
            return result

        return guarded

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        if getattr(optimizer, "grad_scale", None) is not None:
            raise ConfigError(
                f"a guard needs gradients that are unscaled before the step, but {type(optimizer).__name__} unscales "
                "them within it; call scaler.unscale_(optimizer), clip the gradients, or take fused=False."
            )
        self._open = self._guard.step(self._params, self._sizes)
        self._gradients = [param.grad for param in self._params.values()]
        self._open.__enter__()

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._open is not None:
            step, self._open, self._gradients = self._open, None, []
            step.__exit__(None, None, None)

    def _abandon(self) -> None:
        """The optimizer has failed within its last step: give the gradients back that it had."""
        if self._open is None:
            return
        step, self._open = self._open, None
        params, now = list(self._params.values()), [param.grad for param in self._params.values()]
        for param, gradient in zip(params, self._gradients, strict=True):
            param.grad = gradient  # the loop may have made others since
        error = RunError("the optimizer's step has failed.")
        step.__exit__(type(error), error, None)
        for param, gradient in zip(params, now, strict=True):
            param.grad = gradient
        self._gradients = []


def attach(guard: Guard, network: nn.Module, optimizer: torch.optim.Optimizer) -> Attachment:
    """Take every step of an optimizer under a guard: for loops in which ``optimizer.step()`` is out of reach.

    The order in each step is: gradients are complete (accumulated, averaged over processes, unscaled, clipped); the
    guard edits them (an explicit penalty is added, and so is not clipped); the optimizer steps; the guard edits the
    parameters (a projection, an implicit penalty with the optimizer's own step sizes) and gives the gradients back. It
    is bit for bit the loop that has ``with guard.step(params, step_sizes(optimizer, params))`` around the step.

    A step that a gradient scaler skips does not happen for the guard either. Closures are run before the guard. With
    several optimizers, attach the guard to each.

    Args:
        guard: what it remembers is kept. See ``remember_batches``.
        network: what the guard knows parameters of by name; wrappers do not matter.
        optimizer: of torch, or a subclass; what a library has wrapped around it is taken off.

    Raises:
        ConfigError: it is no optimizer of torch; it steps no parameter of the network; parameters are divided among
            processes. In a step: gradients are still scaled, or the optimizer evaluates the loss several times.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    >>> from ramet.guards import ElasticConsolidation
    >>> guard, start = ElasticConsolidation(1e9, form="implicit"), layer.weight.item()
    >>> remember_by = layer(torch.ones(1, 1)).sum().backward()
    >>> guard.remember(named_params(layer))
    >>> with attach(guard, layer, optimizer):
    ...     optimizer.step()
    >>> abs(layer.weight.item() - start) < 1e-6
    True
    """
    plain: Any = optimizer
    while hasattr(plain, "optimizer"):  # accelerate's and Lightning's
        plain = plain.optimizer
    if not (isinstance(plain, torch.optim.Optimizer) and hasattr(plain, "_optimizer_step_pre_hooks")):
        raise ConfigError(f"a guard is attached to an optimizer of torch, but got {type(plain).__name__}.")
    return Attachment(guard, network, plain)


def warn_if_unknown(guard: Guard, network: nn.Module) -> None:
    """Say that a guard remembers parameters by names of which the network has none: it would do nothing at all.

    So it is where it remembered a part of what is trained now (of Lightning, the module inside the ``LightningModule``)
    or what another module has been put around since (adapters of ``peft``).
    """
    held, trained = guard.held(), set(plain_names(named_params(network)))
    if held and trained and held.isdisjoint(trained):
        warnings.warn(
            f"the guard knows parameters by names such as {min(held)!r}, but {type(network).__name__} trains none of "
            f"them (it has {min(trained)!r}): it does nothing; let it remember the very module that is trained.",
            VoidGuardWarning,
            stacklevel=3,
        )


def _check_params(params: dict[str, Tensor], network: nn.Module) -> None:
    if not params:
        raise ConfigError(
            "a guard needs an optimizer that steps parameters of the network, but this one steps none of the "
            f"{len(named_params(network))} of {type(network).__name__}."
        )
    for name, param in params.items():
        if hasattr(param, "device_mesh") or "_flat_param" in name:  # of both versions of FSDP
            raise ConfigError(
                f"a guard needs whole parameters on every process (DDP), but {name} is divided among them (FSDP)."
            )
