"""One training, readable from top to bottom. It knows neither supernets nor tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import RunError
from ramet.runs import Checkpoints, pack_state, unpack_state
from ramet.seeding import generator_states, restore_generators, seeded_globally
from ramet.training.batches import Batches
from ramet.training.recipe import Settings

if TYPE_CHECKING:
    from ramet.params import Params


class StepGuard(Protocol):
    """What the loop asks of a guard; ``ramet.guards`` has the guards."""

    def watch(self, module: nn.Module) -> AbstractContextManager[None]:
        """Listen to the layers of a module while the block runs."""

    def step(self, params: Params, step_sizes: float) -> AbstractContextManager[None]:
        """Guard the optimizer's step, which is taken inside the block."""

    def remember(self, params: Params) -> None:
        """Keep the model on the current path as one that later updates should not disturb."""

    def start_epoch(self, epoch: int) -> None:
        """Tell the guard which epoch begins."""

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""


def make_optimizer(network: nn.Module, settings: Settings) -> torch.optim.SGD:
    """The optimizer of a training. Parameters without a gradient keep their value and their momentum."""
    return torch.optim.SGD(
        network.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        foreach=True,
    )


def fit(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    settings: Settings,
    *,
    seed: int,
    arguments: Callable[[int], tuple[Any, ...]] = lambda step: (),
    loss_of: Callable[[int, Tensor, Tensor], Tensor] | None = None,
    after_step: Callable[[int, float], None] = lambda step, loss: None,
    guard: StepGuard | None = None,
    checkpoints: Checkpoints | None = None,
    log: dict[str, Any] | None = None,
    seconds_between_checkpoints: float = 30.0,
    save_last: bool = True,
    stop_after: int | None = None,
) -> None:
    """Train a network in place by SGD on the cross-entropy.

    Each step is a function of the seed, its number and the state before it, so that a training that was killed and is
    called again with the same ``checkpoints`` ends bit for bit as if it had never stopped.

    Args:
        network: called as ``network(x, *arguments(step))``; gives logits of shape [batch, classes].
        x: the training inputs, shape [samples, ...].
        y: the training labels, shape [samples].
        settings: the numbers of the training.
        seed: the seed of the batches, and of what layers draw.
        arguments: further arguments of the network in a step, for example the architecture that it trains.
        loss_of: what is minimised, called as ``loss_of(step, x, y)`` with a step's inputs and labels, where it is not
            the plain cross-entropy of ``network(x, *arguments(step))``; what it draws must follow from the step.
        after_step: called with the step's number and its loss, when the weights have been updated; the network may be
            evaluated there, as long as it is left in training mode.
        guard: what keeps the updates from disturbing earlier models; each step is taken as the turn of one model, which
            the guard remembers afterwards.
        checkpoints: where the training saves itself from time to time, and resumes from.
        log: JSON values that ``after_step`` collects; saved with each checkpoint and filled again on resuming.
        seconds_between_checkpoints: how much work may be lost.
        save_last: whether the trained network itself is saved at the end; without it, a training that is over in less
            than ``seconds_between_checkpoints`` writes nothing.
        stop_after: end after that many steps; the schedule still spans all epochs.

    Raises:
        RunError: the loss is not finite.
    """
    optimizer = make_optimizer(network, settings)
    batches = Batches(len(x), settings.batch_size, seed)
    num_steps = settings.epochs * batches.steps_per_epoch
    last = num_steps if stop_after is None else min(stop_after, num_steps)
    log = {} if log is None else log
    # Layers that draw (dropout) have only the global generator: it follows from the seed, and is put back afterwards.
    with seeded_globally(seed, "draws"):
        first = _resume(checkpoints, network, optimizer, guard, log)
        params: Params = dict(network.named_parameters())
        saved_at = time.monotonic()
        network.train()
        for step in range(first, last):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate_at(step, num_steps)
            indices = batches[step].to(x.device)
            optimizer.zero_grad(set_to_none=True)
            with nullcontext() if guard is None else guard.watch(network):
                if loss_of is None:
                    loss = cross_entropy(network(x[indices], *arguments(step)), y[indices])
                else:
                    loss = loss_of(step, x[indices], y[indices])
                loss.backward()  # type: ignore[no-untyped-call]
            if settings.clip_norm is not None:
                nn.utils.clip_grad_norm_(network.parameters(), settings.clip_norm, foreach=True)
            if guard is None:
                optimizer.step()
            else:
                if step % batches.steps_per_epoch == 0:
                    guard.start_epoch(step // batches.steps_per_epoch)
                # Momentum makes a constant gradient go 1 / (1 - momentum) times as far as the learning rate.
                with guard.step(params, optimizer.param_groups[0]["lr"] / (1 - settings.momentum)):
                    optimizer.step()
                guard.remember(params)
            value = loss.item()
            if not torch.isfinite(loss):
                raise RunError(
                    f"the loss must stay finite, but is {value} in step {step}; a lower learning rate may help."
                )
            after_step(step, value)
            if checkpoints is not None and time.monotonic() - saved_at > seconds_between_checkpoints:
                _save(checkpoints, step + 1, network, optimizer, guard, log)
                saved_at = time.monotonic()
        if checkpoints is not None and save_last and first < last:
            _save(checkpoints, last, network, optimizer, guard, log)


def _save(
    checkpoints: Checkpoints,
    step: int,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    guard: StepGuard | None,
    log: dict[str, Any],
) -> None:
    state = {
        "network": dict(network.state_dict()),
        "optimizer": optimizer.state_dict(),
        "guard": None if guard is None else guard.state_dict(),
        "generators": generator_states(network.parameters()),
        "log": log,
    }
    checkpoints.save(step, *pack_state(state))


def _resume(
    checkpoints: Checkpoints | None,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    guard: StepGuard | None,
    log: dict[str, Any],
) -> int:
    """The first step still to be done, everything put back as it was before it."""
    checkpoint = None if checkpoints is None else checkpoints.load()
    if checkpoint is None:
        return 0
    state = unpack_state(checkpoint.tensors, checkpoint.state)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    if guard is not None:
        guard.load_state_dict(state["guard"])
    restore_generators(state.get("generators", {}))
    log.clear()
    log.update(state["log"])
    return checkpoint.step
