"""Networks to grow from, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from torch import nn

NETWORKS: Registry[nn.Module] = Registry(
    "network",
    base="torch.nn:Module",
    group="ramet.networks",
    built_in={
        "mlp": "ramet.growth.networks:mlp",
        "vgg": "ramet.growth.networks:vgg",
        "mobilenet": "ramet.growth.networks:mobilenet",
    },
    given=("in_channels", "image_size", "num_classes"),
)
"""What makes a network for images of a size and so many classes."""
