"""The projections of all products that a guard has seen: made, fed, closed, applied to updates, saved and restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.core_spaces import CoreProjector
from ramet.guards.layers import Kind, Product
from ramet.guards.listening import Slot, planned_products
from ramet.guards.matrices import bias_of, check_width, joined, names_of, parted, parts_of, weight_of
from ramet.guards.placing import Place
from ramet.guards.projection_settings import ProjectionSettings
from ramet.guards.projectors import (
    DiagonalProjector,
    MatrixProjector,
    ProductMemory,
    Projector,
    RankProjector,
    close_matrices,
)
from ramet.params import Params

PARTS = frozenset({"matrix", "gram", "columns", "core", "basis", "energy", "counts", "gathered", "rank"})
"""What a saved projection may consist of."""


class HeldProjections:
    """A projection for each product, by its key.

    Attributes:
        products: all that are known, by slot.
        places: where in its parameter a product's matrix lies, as it was found once; see ``Ears``.
    """

    def __init__(self, settings: ProjectionSettings) -> None:
        self._settings = settings
        self._memory: dict[str, ProductMemory] = {}
        self._projectors: dict[str, Projector] = {}
        self.products: dict[Slot, Product] = {}
        self.places: dict[Any, Place | None] = {}

    # Which there are.

    def plan(self, module: nn.Module, is_wanted: Callable[[str], bool]) -> None:
        """Decide how each projection is held that is known before the module runs, and refuse what does not fit."""
        planned = planned_products(module, is_wanted)
        for slot, product in planned.items():
            kept = self.products.get(slot)
            if kept is not None and kept.key in self._projectors and self._projectors[kept.key].closed:
                # What is closed stays, with the bias that it had, also when that is frozen now.
                inputs = product.width - (product.bias is not None)
                check_width(kept.key, inputs, kept.width - (kept.bias is not None))
                planned[slot] = kept
        self.products = {**self.products, **planned}
        self._admit(planned.values())

    def _admit(self, products: Iterable[Product]) -> None:
        """Make projections for products, unless all of them together would take too much."""
        found = {product.key: self._settings.memory_of(product) for product in products}
        memory = {**self._memory, **found}
        num_bytes, most = sum(one.num_bytes for one in memory.values()), self._settings.max_bytes
        if num_bytes > most:
            widest = max(memory.values(), key=lambda one: one.num_bytes)
            raise ConfigError(
                f"projections may take at most {most} bytes, but these take {num_bytes}, of which "
                f"{widest.product.key} {widest.num_bytes}; raise max_bytes, or give rank or a smaller max_width."
            )
        self._memory = memory
        for key, one in found.items():
            if key not in self._projectors:
                self._projectors[key] = self._settings.projector(one.product.kind, one.rank)

    def reopen(self) -> None:
        """Drop all of them."""
        self._projectors, self._memory, self.products = {}, {}, {}

    # What they learn.

    def gather(self, product: Product, inputs: Tensor) -> None:
        """Take the inputs of a product in one call."""
        if product.kind == "matrix" and product.groups < inputs.shape[0]:  # its rows are used in parts
            product = self.products[product.slot] = replace(product, groups=inputs.shape[0])
            self._admit([product])
        elif product.key not in self._projectors:  # not known before it ran
            self._admit([product])
        projector = self._projectors[product.key]
        projector.move(inputs.device)
        projector.gather(inputs)

    def discard(self) -> None:
        """Drop the inputs gathered since the last time."""
        for projector in self._projectors.values():
            projector.discard()

    def close(self, group: Any | None) -> None:
        """Close the directions of the inputs gathered since the last time, of all ranks of a process group."""
        keep, matrices = self._settings.forgetting, []
        for projector in self._projectors.values():
            if type(projector) is MatrixProjector:
                matrices.append(projector)
            else:
                projector.close(keep, group)
        close_matrices(matrices, keep, group)

    # What they do.

    def closed(self) -> dict[str, Projector]:
        """Those that have closed any direction."""
        return {key: projector for key, projector in self._projectors.items() if projector.closed}

    def closed_on(self, path: Params) -> list[str]:
        """The keys of those whose weight is on a path."""
        return [key for key, projector in self._projectors.items() if projector.closed and weight_of(key) in path]

    def project(self, keys: Iterable[str], updates: Params) -> None:
        """Project the updates of the parameters of some products, in place in ``updates``."""
        # One matrix product a layer: shapes differ, so that there is no list form of it. Rows come last, see below.
        for key in sorted(keys, key=lambda key: isinstance(self._projectors[key], DiagonalProjector)):
            self._project(key, updates)

    def _project(self, key: str, updates: Params) -> None:
        """Project the update of one product's weight and bias."""
        projector, weight = self._projectors[key], updates[weight_of(key)]
        projector.move(weight.device)
        if parts_of(key).marker == "^E":
            check_width(key, weight.numel(), projector.shape[1])
            updates[weight_of(key)] = projector.project(weight.reshape(-1)).reshape(weight.shape)
            return
        if isinstance(projector, DiagonalProjector):
            check_width(key, len(weight), projector.shape[1])
            # A decoder that is tied to this embedding mixes its weight's rows with its bias, which are scaled alike.
            for name in {n for k in self._projectors if weight_of(k) == weight_of(key) for n in names_of(k, updates)}:
                updates[name] = projector.project(updates[name].mT if updates[name].dim() > 1 else updates[name])
            updates[weight_of(key)] = updates[weight_of(key)].mT
            return
        projected = projector.project(joined(key, *projector.shape, updates))
        if (bias := bias_of(key)) is not None and bias not in updates:
            projected = _without_bias(projector, projected)
        updates.update(parted(key, projected, updates))

    # With a threshold of energy.

    def cores(self) -> dict[str, Tensor]:
        """The core of each matrix by its product's key, [groups, width, directions]."""
        return {
            key: projector.parts["core"]
            for key, projector in self._projectors.items()
            if isinstance(projector, CoreProjector) and projector.closed
        }

    def gathered(self) -> dict[str, Tensor]:
        """X X' of the inputs gathered since the last time, by the product's key."""
        found = {
            key: projector.gathered_gram()
            for key, projector in self._projectors.items()
            if isinstance(projector, CoreProjector)
        }
        return {key: gram for key, gram in found.items() if gram is not None}

    # Saved and restored.

    def state_dict(self) -> dict[str, Tensor]:
        """``PART/KEY`` for each part of each projection, gathered inputs among them."""
        state = {}
        for key, projector in self._projectors.items():
            for part, tensor in projector.tensors().items():
                state[f"{part}/{key}"] = tensor.contiguous().clone()
            if isinstance(projector, RankProjector) and projector.tensors():
                state[f"rank/{key}"] = torch.tensor(projector.rank)
        return state

    def load_parts(self, parts: dict[str, dict[str, Tensor]]) -> None:
        """Hold what was saved, by key and part, in place of all that is there."""
        self.reopen()
        for key, tensors in parts.items():
            rank = tensors.pop("rank", None)
            diagonal = "counts" in tensors or "gathered" in tensors
            kind: Kind = "matrix" if not diagonal else "entries" if parts_of(key).marker == "^E" else "rows"
            limit = None if rank is None else int(rank)
            self._projectors[key] = self._settings.projector(kind, limit, **tensors)
            product = _restored(key, kind, next(iter(tensors.values())))
            self.products[product.slot] = product


def _restored(key: str, kind: Kind, part: Tensor) -> Product:
    """The product of a saved projection, by one of its parts."""
    names = parts_of(key)
    groups, width = part.shape[:2] if kind == "matrix" else (1, len(part)) if kind == "rows" else (len(part), 1)
    return Product(key, "", names.weight, names.bias, groups, width, kind, names.transposed)


def _without_bias(projector: Projector, projected: Tensor) -> Tensor:
    """The projection of an update of the weight alone, from that of the weight and a bias of which the update is 0.

    With the bias's row r of P and its own entry b, the inputs without their 1 have the projection P - r r' / b: the
    inverse of a block of P's inverse.
    """
    groups, width = projector.shape
    unit = projected.new_zeros(groups, 1, width)
    unit[..., -1] = 1.0
    row = projector.project(unit)  # [groups, 1, width]
    own = row[..., -1:]
    open_enough = own > torch.finfo(own.dtype).eps  # else the row is 0, too
    share = torch.where(open_enough, projected[..., -1:] / own.clamp(min=torch.finfo(own.dtype).eps), 0.0)
    return projected - share * row
