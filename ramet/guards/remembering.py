"""What a trained network is to keep, from mini-batches of the data that it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError, RunError
from ramet.guards.base import Guard
from ramet.params import Params, named_params

Batch = TypeVar("Batch")


def remember_batches(
    guard: Guard, network: nn.Module, batches: Iterable[Batch], loss: Callable[[Batch], Tensor] | None = None
) -> None:
    """Let a guard remember a network as it is now, by mini-batches of old data: before it is trained on new data.

    Guards that work on inputs gather those of all mini-batches. Penalties get the mean over mini-batches of the squared
    gradients; with one sample a mini-batch that is the empirical Fisher information of ``diagonal_fisher``, for a
    network that ``torch.func`` cannot take. The network is in evaluation mode meanwhile; its modes and gradients are
    put back, and what the guard had gathered of an unfinished model is dropped.

    In a training of several processes do this in every one, with the same mini-batches, before the network is wrapped;
    or with the wrapped network, and a part of the mini-batches in each.

    Args:
        guard: remembers.
        network: the trained network; what it is in now is the anchor.
        batches: mini-batches of the data that it must not forget; a few hundred samples go a long way.
        loss: gives a mini-batch's mean loss, through the network; by default mini-batches are pairs of inputs and
            labels, and it is the cross-entropy.

    Raises:
        ConfigError: there is no mini-batch, or no loss depends on a parameter.
        RunError: a loss or a gradient is not finite.

    >>> from ramet.guards import WeightPlasticity
    >>> layer, guard = nn.Linear(2, 1, bias=False), WeightPlasticity(10.0)
    >>> remember_batches(guard, layer, [torch.ones(1, 2), 3 * torch.ones(1, 2)], lambda x: layer(x).sum())
    >>> guard.fisher["weight"]  # the mean of 1 and 9
    tensor([[5., 5.]])
    """
    params, count = named_params(network), 0
    modes = {module: module.training for module in network.modules()}
    gradients = {name: param.grad for name, param in params.items()}
    squares: Params = {}
    guard.discard()
    network.eval()
    try:
        with guard.watch(network):
            for batch in batches:
                for param in params.values():
                    param.grad = None
                value = _cross_entropy(network, batch) if loss is None else loss(batch)
                torch.autograd.backward(value)
                _check_finite(float(value.detach()), count)
                _add_squares(squares, params)
                count += 1
    finally:
        for name, param in params.items():
            param.grad = gradients[name]
        for module, mode in modes.items():
            module.training = mode
    if not squares:
        raise ConfigError(
            f"a guard remembers by losses of parameters, but none of {count} mini-batches gave a gradient."
        )
    torch._foreach_div_(list(squares.values()), count)
    norms = torch._foreach_norm(list(squares.values()), float("inf"))
    _check_finite(float(torch.stack([norm.cpu() for norm in norms]).max()), count)
    guard.remember(params, squares)


def _cross_entropy(network: nn.Module, batch: Any) -> Tensor:
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        shown = f"{len(batch)} of them" if isinstance(batch, list | tuple) else f"a {type(batch).__name__}"
        raise ConfigError(f"without a loss a mini-batch is a pair, inputs and targets, but got {shown}.")
    x, y = batch
    return cross_entropy(network(x), y)


def _add_squares(squares: Params, params: Params) -> None:
    """Add the squares of the gradients that parameters hold, in at least float32."""
    with torch.no_grad():
        for name, param in params.items():
            if param.grad is not None:
                gradient = param.grad.to_dense() if param.grad.is_sparse else param.grad
                square = gradient.to(torch.promote_types(gradient.dtype, torch.float32)).square()
                squares[name] = squares[name] + square if name in squares else square


def _check_finite(value: float, place: int) -> None:
    if not -float("inf") < value < float("inf"):
        raise RunError(f"losses and gradients must be finite, but mini-batch {place} of the old data gave {value}.")
