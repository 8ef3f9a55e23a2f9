"""What the projections of a network take, known before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from ramet.errors import ConfigError
from ramet.guards.layers import Product, products_of, uncovered
from ramet.guards.names import unwrapped

_BYTES = 4  # Projections are kept in float32.


@dataclass(frozen=True)
class ProductMemory:
    """What one product's projection takes, and the limit on its rank; None keeps the whole matrix.

    A whole matrix takes groups x width squared values, a limited rank groups x (width + 1) x rank, one-hot inputs
    width.
    """

    product: Product
    rank: int | None
    num_bytes: int

    @property
    def kind(self) -> str:
        """How the projection is held, in a few words."""
        if self.product.one_hot:
            return "diagonal"
        return "whole" if self.rank is None else f"rank {self.rank}"


@dataclass(frozen=True)
class ProjectionMemory:
    """What all projections of a network take, and which parameters have none; ``print`` shows it as a table."""

    layers: tuple[ProductMemory, ...]
    uncovered: tuple[str, ...]

    @property
    def num_bytes(self) -> int:
        """The sum over the layers."""
        return sum(layer.num_bytes for layer in self.layers)

    def __str__(self) -> str:
        lines = [f"{'projection':<40} {'groups':>6} {'width':>7}  {'held as':<10} {'KiB':>10}"]
        for layer in self.layers:
            groups, width = layer.product.groups, layer.product.width
            size = layer.num_bytes / 1024
            lines.append(f"{layer.product.key:<40} {groups:>6} {width:>7}  {layer.kind:<10} {size:>10.1f}")
        lines.append(f"{'all':<40} {'':>6} {'':>7}  {'':<10} {self.num_bytes / 1024:>10.1f}")
        if self.uncovered:
            lines.append(f"without a projection: {', '.join(self.uncovered)}")
        return "\n".join(lines)


def estimate_memory(
    module: nn.Module,
    *,
    rank: int | None,
    max_width: int,
    wide: Literal["rank", "refuse"],
    wanted: Callable[[Product], bool],
) -> ProjectionMemory:
    """What the projections of the ``wanted`` products of a module will take.

    Layers wider than ``max_width`` are limited to a rank that takes no more than the widest allowed matrix, or refused.

    Raises:
        ConfigError: for a layer wider than ``max_width`` where ``wide`` is "refuse".
    """
    root = unwrapped(module)
    layers = []
    for _, products in products_of(root):
        for product in filter(wanted, products):
            layers.append(_layer_memory(product, rank, max_width, wide))
    return ProjectionMemory(tuple(layers), tuple(uncovered(root)))


def _layer_memory(product: Product, rank: int | None, max_width: int, wide: str) -> ProductMemory:
    width = product.width
    if product.one_hot:
        return ProductMemory(product, None, width * _BYTES)
    limit = rank
    if limit is None and width > max_width:
        if wide == "refuse":
            raise ConfigError(
                f"a projected layer may be at most max_width={max_width} wide, but {product.key} is {width} wide; "
                "raise max_width, give rank, or leave the layer out with protect."
            )
        limit = max(1, max_width**2 // width)
    if limit is None or limit >= width:
        return ProductMemory(product, None, product.groups * width**2 * _BYTES)
    return ProductMemory(product, limit, product.groups * (width + 1) * limit * _BYTES)
