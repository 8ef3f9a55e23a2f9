"""The one currency of ramet's parts: tensors by the names that ``nn.Module.named_parameters`` gives them."""

from __future__ import annotations

from torch import Tensor, nn

from ramet.errors import ConfigError

Params = dict[str, Tensor]
"""Tensors keyed as ``nn.Module.named_parameters()`` keys them."""


def named_params(module: nn.Module) -> Params:
    """The trainable parameters of a module, by name."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"parameters are those of an nn.Module, but got a {type(module).__name__}.")
    return {name: param for name, param in module.named_parameters() if param.requires_grad}


def named_grads(module: nn.Module) -> Params:
    """The gradients of a module, by name; a parameter that took no part in the last backward pass has no entry."""
    return {name: param.grad for name, param in module.named_parameters() if param.grad is not None}
