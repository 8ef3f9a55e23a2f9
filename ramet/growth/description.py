"""What a network is made of, layer by layer, in plain values: for records, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.growth.surgery.layers import is_new_layer, is_wrapper
from ramet.training import training_modes

KINDS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd, nn.Embedding, nn.MultiheadAttention)
"""The layers that have channels of their own; norms and activations go along."""


def describe_layers(network: nn.Module, inputs: Tensor) -> list[dict[str, Any]]:
    """The layers of a network in the order in which they first run.

    A layer keeps the name that it had before other layers were put behind it, so that two descriptions of one network,
    before and after it grew, can be laid side by side.

    Args:
        network: any module.
        inputs: a small batch for it.

    Returns:
        For each layer ``name``, ``kind``, ``units`` (its outputs), ``inputs``, ``params``, and whether it is ``new``.

    >>> describe_layers(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.zeros(2, 3))
    [{'name': '0', 'kind': 'Linear', 'units': 4, 'inputs': 3, 'params': 16, 'new': False}]
    """
    order: list[str] = []
    handles = []
    for name, module in network.named_modules():
        if isinstance(module, KINDS):
            handles.append(module.register_forward_pre_hook(_noting(order, name)))
    try:
        with training_modes(network), torch.no_grad():
            network.eval()
            network(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return [_describe(network, name) for name in dict.fromkeys(order)]


def _noting(order: list[str], name: str) -> Callable[[nn.Module, Any], None]:
    def note(module: nn.Module, arguments: Any) -> None:
        order.append(name)

    return note


def _describe(network: nn.Module, path: str) -> dict[str, Any]:
    layer = network.get_submodule(path)
    name, new = original_name(network, path)
    kind = type(layer).__name__
    if isinstance(layer, nn.modules.conv._ConvNd):
        depthwise = layer.groups == layer.in_channels > 1
        kind = f"{'x'.join(map(str, layer.kernel_size))} {'depthwise' if depthwise else 'convolution'}"
        units, inputs = layer.out_channels, layer.in_channels
    elif isinstance(layer, nn.Embedding):
        units, inputs = layer.embedding_dim, layer.num_embeddings
    elif isinstance(layer, nn.MultiheadAttention):
        units = inputs = layer.embed_dim
    elif isinstance(layer, nn.Bilinear):
        units, inputs = layer.out_features, layer.in1_features
    else:
        assert isinstance(layer, nn.Linear)
        units, inputs = layer.out_features, layer.in_features
    return {
        "name": name,
        "kind": kind,
        "units": units,
        "inputs": inputs,
        "params": count_parameters(layer),
        "new": new,
    }


def original_name(network: nn.Module, path: str) -> tuple[str, bool]:
    """The name that a module had in the network as it was at first, and whether it belongs to a layer that was added.

    A layer that was added behind ``conv`` is called ``conv+1``, its parts ``conv+1.inner`` and ``conv+1.outer``.
    """
    module, kept, new = network, "", False
    for part in path.split("."):
        around, module = module, module.get_submodule(part)
        if is_wrapper(around):
            kept += f"+{part}" if part != "0" else ""
        else:
            kept += f".{part}" if kept else part
        new = new or is_new_layer(module)
    return kept, new
