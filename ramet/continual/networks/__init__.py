"""What tasks are learned on: chains of layers, any module, graphs of their parts, and a master network under masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ramet.registry import Registry

if TYPE_CHECKING:
    from torch import nn

    from ramet.continual.networks.skeletons import Skeleton

SKELETONS: Registry[Skeleton | nn.Module | Any] = Registry(
    "skeleton",
    base="ramet.continual.networks.skeletons:LearnableNetwork",
    group="ramet.skeletons",
    built_in={
        "mlp": "ramet.continual.networks.skeletons:mlp",
        "conv": "ramet.continual.networks.skeletons:conv",
        "vgg": "ramet.growth.networks:vgg",
        "mobilenet": "ramet.growth.networks:mobilenet",
    },
    given=(
        *("in_channels", "image_size", "num_classes", "batch_norm", "shared_head"),
        *("input_shape", "num_features", "num_outputs", "length", "words"),
    ),
)
"""What the network of every task looks like: a chain of layers, or a module."""
