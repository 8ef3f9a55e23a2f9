"""The matrices of a network: the weights of its linear layers, convolutions and attentions, by name."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.conv import _ConvNd

ATTENTION = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""The matrices that torch's attention holds itself; its last map is a linear layer."""


def body_matrices(network: nn.Module, head: str) -> dict[str, nn.Parameter]:
    """The matrices of a task's network that are trained, without those of its head.

    >>> list(body_matrices(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), "2"))
    ['0.weight']
    """
    found = matrices(network).items()
    return {name: param for name, param in found if param.requires_grad and not name.startswith(f"{head}.")}


def matrices(network: nn.Module) -> dict[str, nn.Parameter]:
    """All matrices by name; one that two layers share is there once.

    Norms, biases, tables of embeddings and parameters that no layer holds are none.

    >>> list(matrices(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MultiheadAttention(4, 2))))
    ['0.weight', '2.in_proj_weight', '2.out_proj.weight']
    """
    found: dict[str, nn.Parameter] = {}
    for name, param in network.named_parameters():
        owner, _, own_name = name.rpartition(".")
        layer = network.get_submodule(owner)
        is_weight = isinstance(layer, nn.Linear | _ConvNd) and own_name == "weight"
        if is_weight or (isinstance(layer, nn.MultiheadAttention) and own_name in ATTENTION):
            found[name] = param
    return found
