"""A network that was trained elsewhere: what it knows of its data is kept from now on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.names import plain_names
from ramet.guards.precision import precise
from ramet.params import Params, named_params


def remember_trained(
    guard: Guard,
    network: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> None:
    """Let a guard remember a network as it stands, from data that it was trained on; nothing is trained.

    The network passes each mini-batch forward and backward in evaluation mode, as it is used; the guards that need
    inputs see them, and the others get its squared gradients: their mean over the mini-batches, times the size of a
    mini-batch, which at an optimum is the Fisher information of single samples (see ``fisher``). Gradients and modes
    are afterwards as they were before. Some hundred samples are enough for most networks.

    Raises:
        ConfigError: if there is no mini-batch, or no parameter gets a gradient.

    >>> from ramet.guards import OrthogonalProjection
    >>> network, x = nn.Linear(3, 2), torch.randn(8, 3)
    >>> guard = OrthogonalProjection()
    >>> remember_trained(guard, network, [(x, torch.zeros(8, dtype=torch.long))])
    >>> guard.report()["closed_layers"]
    1.0
    """
    params = named_params(network)
    kept = {name: param.grad for name, param in params.items()}
    modes = {module: module.training for module in network.modules()}
    fisher: Params = {}
    number = 0
    guard.discard()
    try:
        network.eval()
        for x, y in batches:
            number += 1
            for param in params.values():
                param.grad = None
            with guard.watch(network):
                loss(network(x), y).backward()  # type: ignore[no-untyped-call]
            for name, param in zip(plain_names(params), params.values(), strict=True):
                if param.grad is not None:
                    gradient = param.grad.to_dense() if param.grad.is_sparse else param.grad
                    fisher[name] = fisher.get(name, 0.0) + len(x) * precise(gradient).square()
        if not fisher:
            raise ConfigError(f"a trained network is remembered from mini-batches, but there were {number} of use.")
        torch._foreach_div_(list(fisher.values()), float(number))
        guard.remember(params, fisher)
    finally:
        for name, param in params.items():
            param.grad = kept[name]
        for module, mode in modes.items():
            module.training = mode
