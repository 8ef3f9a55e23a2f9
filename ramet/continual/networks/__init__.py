"""What tasks are learned on: chains of layers, graphs of their copies, and a master network under masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.continual.networks.skeletons import Skeleton

SKELETONS: Registry[Skeleton] = Registry(
    "skeleton",
    base="ramet.continual.networks.skeletons:Skeleton",
    group="ramet.skeletons",
    built_in={
        "mlp": "ramet.continual.networks.skeletons:mlp",
        "conv": "ramet.continual.networks.skeletons:conv",
    },
    given=("in_channels", "image_size", "batch_norm", "shared_head"),
)
"""What the network of every task looks like."""
