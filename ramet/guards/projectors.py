"""Three ways to hold one layer's projection: the whole matrix, a limited rank, and a diagonal for rows and entries.

Each gathers the inputs of the model being trained, and closes their directions when that model is finished. The
inputs of the current model are not in the projection while it trains (section 3.3), or it could not learn. What they
take is known before anything is allocated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.closing import close_directions, close_gram, finite_columns, gram_of, reopen_gradually
from ramet.guards.layers import Product
from ramet.guards.ranks import sum_over_ranks, world_size

_BYTES = 4  # Projections are kept in float32.


class Projector(ABC):
    """The projection of one product's updates, and the inputs that it will learn next.

    Args:
        regularisation: lambda of Eq. 7.
        mean: whether inputs come as means, which are over the samples of all ranks already.
        by_energy: whether the inputs of each model are divided so that the mean eigenvalue of their X X' is 1.
        parts: what was kept and gathered before, as ``tensors`` gives it.
    """

    kept: ClassVar[str]
    """The part that is there once something is closed, [groups, width, ...]."""
    lasting: ClassVar[tuple[str, ...]]
    """All parts that are not gathered inputs."""

    def __init__(self, regularisation: float, *, mean: bool, by_energy: bool = False, **parts: Tensor) -> None:
        self.regularisation, self.mean, self.by_energy, self.parts = regularisation, mean, by_energy, parts

    @abstractmethod
    def gather(self, inputs: Tensor) -> None:
        """Take the inputs of one call, as ``listening.SeenProduct`` has them."""

    def discard(self) -> None:
        """Drop the inputs gathered since the last time."""
        self.parts = {part: tensor for part, tensor in self.parts.items() if part in self.lasting}

    @abstractmethod
    def close(self, keep: float, group: Any | None) -> None:
        """Close the directions gathered since the last time, once those before count only ``keep`` times as much."""

    @abstractmethod
    def project(self, update: Tensor) -> Tensor:
        """The part of an update that no seen input notices, [groups, outputs, width]."""

    @abstractmethod
    def open_directions(self) -> tuple[float, int]:
        """The sum of the projection's eigenvalues, and how many there are."""

    @property
    def closed(self) -> bool:
        """Whether anything is closed; if not, ``project`` need not be called."""
        return self.kept in self.parts

    @property
    def shape(self) -> tuple[int, int]:
        """Groups and width, once something is closed."""
        groups, width = self.parts[self.kept].shape[:2]
        return groups, width

    def move(self, device: torch.device) -> None:
        """Bring everything to a device; nothing happens when it is there."""
        for tensor in self.parts.values():  # in every step for every layer: no generator is made for it
            if tensor.device != device:
                self.parts = {part: tensor.to(device) for part, tensor in self.parts.items()}
                break

    def tensors(self) -> dict[str, Tensor]:
        """What is kept and gathered, by part."""
        return dict(self.parts)

    def fitted(self, inputs: Tensor) -> Tensor:
        """Inputs for as many groups as there are here, [groups, width, n]; this projection falls into more if need be.

        Rows that were used together, and are now used in parts, have had the same inputs. Where numbers of groups do
        not divide each other, every group gets the inputs of all: more is closed than needs be.
        """
        have, got = self._num_groups(), inputs.shape[0]
        if have in (None, got):
            return inputs
        if have < got and got % have == 0:
            self._split(got // have)
            return inputs
        if have % got == 0:
            return inputs.repeat_interleave(have // got, dim=0)
        return inputs.permute(1, 0, 2).flatten(1).expand(have, -1, -1)

    def _num_groups(self) -> int | None:
        for tensor in self.parts.values():
            return len(tensor)
        return None

    def _split(self, times: int) -> None:
        self.parts = {part: tensor.repeat_interleave(times, dim=0) for part, tensor in self.parts.items()}


class MatrixProjector(Projector):
    """The whole matrix, groups x width x width values in float32 (float64 for float64 inputs).

    The parts are ``matrix``, P, which is not allocated before it is needed; ``columns``, the gathered inputs while
    there are at most ``width`` of them; and ``gram``, their X X', [groups, width, width], once there are more.
    """

    kept = "matrix"
    lasting = ("matrix",)

    def __init__(self, regularisation: float, *, mean: bool, by_energy: bool = False, **parts: Tensor) -> None:
        super().__init__(regularisation, mean=mean, by_energy=by_energy, **parts)
        self._columns = [self.parts.pop("columns")] if "columns" in parts else []
        self.dtype = self._columns[0].dtype if self._columns else torch.float32

    def gather(self, inputs: Tensor) -> None:
        """Keep the columns, or add them to X X' once they are more than the width."""
        self.dtype = inputs.dtype
        inputs = self.fitted(inputs)
        gram, is_first = self.parts.get("gram"), not self._columns
        self._columns.append(inputs)
        if gram is None and is_first and inputs.shape[-1] <= inputs.shape[-2]:  # the mean of a step: nearly always
            return
        if sum(columns.shape[-1] for columns in self._columns) > inputs.shape[-2] or gram is not None:
            added = gram_of(finite_columns(torch.cat(self._columns, dim=-1)))
            self.parts["gram"] = added if gram is None else gram + added
            self._columns = []

    def discard(self) -> None:
        """Drop columns and gram."""
        super().discard()
        self._columns = []

    def _num_groups(self) -> int | None:
        return len(self._columns[0]) if self._columns else super()._num_groups()

    def _split(self, times: int) -> None:
        super()._split(times)
        self._columns = [columns.repeat_interleave(times, dim=0) for columns in self._columns]

    def take(self, group: Any | None) -> tuple[Tensor | None, Tensor | None]:
        """The gathered inputs of all ranks, either in columns or as their X X'; none are left."""
        gram = self.parts.pop("gram", None)
        if gram is None and not self._columns:  # all layers of a supernet but those on the path
            return None, None
        columns = None
        if self._columns:
            columns = self._columns[0] if len(self._columns) == 1 else torch.cat(self._columns, dim=-1)
            self._columns = []
        if not self.mean and world_size(group) > 1:
            if columns is not None:
                gram, columns = gram_of(finite_columns(columns)), None
            if gram is not None:
                sum_over_ranks([gram], group)
        if self.by_energy:
            columns = None if columns is None else finite_columns(columns)
            columns = None if columns is None else columns / _mean_energy(columns.square()).sqrt()
            gram = None if gram is None else gram / _mean_energy(gram.diagonal(dim1=-2, dim2=-1).unsqueeze(-1))
        return columns, gram

    def close(self, keep: float, group: Any | None) -> None:
        """Eq. 8 for all gathered inputs at once."""
        close_matrices([self], keep, group)

    def project(self, update: Tensor) -> Tensor:
        """Eq. 6, on the input side."""
        return update @ self.parts["matrix"].to(update.dtype)

    def open_directions(self) -> tuple[float, int]:
        """The trace."""
        diagonal = self.parts["matrix"].diagonal(dim1=-2, dim2=-1)
        return float(diagonal.sum()), diagonal.numel()

    def move(self, device: torch.device) -> None:
        """Bring matrix and gathered inputs to a device."""
        super().move(device)
        if any(columns.device != device for columns in self._columns):
            self._columns = [columns.to(device) for columns in self._columns]

    def tensors(self) -> dict[str, Tensor]:
        """Matrix, columns and gram, where there are any."""
        gathered = {"columns": torch.cat(self._columns, dim=-1)} if self._columns else {}
        return {**self.parts, **gathered}


def close_matrices(projectors: Iterable[MatrixProjector], keep: float, group: Any | None) -> None:
    """``close`` for many: layers of the same shape are closed together in one batch of matrix products."""
    alike: dict[tuple[Any, ...], list[tuple[MatrixProjector, Tensor, Tensor]]] = defaultdict(list)
    for projector in projectors:
        columns, gram = projector.take(group)
        seen = columns if gram is None else gram
        if seen is None:
            continue
        if projector.closed:
            matrix = projector.parts["matrix"]
        else:
            eye = torch.eye(seen.shape[-2], dtype=projector.dtype, device=seen.device)
            matrix = eye.expand(seen.shape[0], -1, -1)
        kind = (matrix.shape, seen.shape, matrix.dtype, matrix.device, projector.regularisation, gram is None)
        alike[kind].append((projector, matrix, seen))
    for (*_, regularisation, in_columns), members in alike.items():
        matrices = _stacked([matrix for _, matrix, _ in members])  # [layers, groups, width, width]
        inputs = _stacked([seen for _, _, seen in members])  # [layers, groups, width, n], or [..., width]
        if keep < 1.0:
            matrices = reopen_gradually(matrices, keep)
        close = close_directions if in_columns else close_gram
        for (projector, _, _), matrix in zip(members, close(matrices, inputs, regularisation), strict=True):
            # Of several, each has memory of its own, so that none keeps that of all.
            projector.parts["matrix"] = matrix.clone() if len(members) > 1 else matrix


def _stacked(tensors: list[Tensor]) -> Tensor:
    """The tensors along a new first axis; one by itself, which a network's widest layer often is, is not copied."""
    return torch.stack(tensors) if len(tensors) > 1 else tensors[0].unsqueeze(0)


class RankProjector(Projector):
    """At most ``rank`` closed directions, groups x width x rank values: for layers too wide for the whole matrix.

    The strongest directions of the inputs' X X' ~ U E U' are kept (``basis`` U and ``energy`` E), so that P = I - U E
    (lambda I + E)^-1 U', which is exact while the inputs span no more than ``rank`` directions. When they span more,
    the weakest are dropped, which opens them again.
    """

    kept = "basis"
    lasting = ("basis", "energy")

    def __init__(
        self, regularisation: float, rank: int, *, mean: bool, by_energy: bool = False, **parts: Tensor
    ) -> None:
        super().__init__(regularisation, mean=mean, by_energy=by_energy, **parts)
        self.rank = rank

    def gather(self, inputs: Tensor) -> None:
        """Keep the columns; more than ``rank`` are reduced to the strongest directions."""
        inputs = finite_columns(self.fitted(inputs))
        for block in torch.split(inputs, max(self.rank, 64), dim=-1):
            columns = torch.cat([self.parts["columns"], block], dim=-1) if "columns" in self.parts else block
            self.parts["columns"] = columns if columns.shape[-1] <= self.rank else _strongest(columns, self.rank)

    def close(self, keep: float, group: Any | None) -> None:
        """Add the gathered inputs to the kept directions."""
        columns = self.parts.pop("columns", None)
        if columns is None:
            return
        if world_size(group) > 1 and not self.mean:
            padded = columns.new_zeros((*columns.shape[:-1], self.rank))
            padded[..., : columns.shape[-1]] = columns
            everyone = [torch.empty_like(padded) for _ in range(world_size(group))]
            torch.distributed.all_gather(everyone, padded, group=group)
            columns = torch.cat(everyone, dim=-1)
        if self.by_energy:  # that of the directions that are left, if there were more than the rank
            columns = columns / _mean_energy(columns.square()).sqrt()
        if self.closed:
            basis, energy = self.parts["basis"], self.parts["energy"]
            columns = torch.cat([basis * (keep * energy).sqrt().unsqueeze(-2), columns], dim=-1)
        strongest = _strongest(columns, self.rank)
        lengths = torch.linalg.vector_norm(strongest, dim=-2)
        self.parts["basis"] = strongest / lengths.clamp(min=torch.finfo(lengths.dtype).tiny).unsqueeze(-2)
        self.parts["energy"] = lengths.square().clamp(max=torch.finfo(lengths.dtype).max)

    def project(self, update: Tensor) -> Tensor:
        """Take out the closed share of each kept direction."""
        basis = self.parts["basis"].to(update.dtype)
        return update - (update @ basis * self._closed_share().to(update.dtype).unsqueeze(-2)) @ basis.mT

    def _closed_share(self) -> Tensor:
        """1 minus the eigenvalue of P in each kept direction, [groups, rank]."""
        energy = self.parts["energy"]
        return energy / (energy + self.regularisation).clamp(min=torch.finfo(energy.dtype).tiny)

    def open_directions(self) -> tuple[float, int]:
        """The trace of P."""
        groups, width = self.shape
        return groups * width - float(self._closed_share().sum()), groups * width


def _mean_energy(squares: Tensor) -> Tensor:
    """The mean eigenvalue of X X' over all groups, from the squares of X, [groups, width, n]; 1 if it is 0."""
    energy = squares.sum(dtype=torch.float64) / (squares.shape[0] * squares.shape[1])
    return torch.where(energy > 0, energy, 1.0).to(squares.dtype)


def _strongest(columns: Tensor, rank: int) -> Tensor:
    """At most ``rank`` orthogonal columns that come closest to the X X' of the given ones, [groups, width, rank]."""
    columns64 = columns.to(torch.float64)
    scale = columns64.abs().amax(dim=(-2, -1), keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    columns64 = columns64 / scale
    values, vectors = torch.linalg.eigh(columns64.mT @ columns64)  # ascending, [groups, n]
    noise = values.amax(-1, keepdim=True) * columns.shape[-1] * torch.finfo(torch.float64).eps * 8
    vectors = torch.where((values > noise).unsqueeze(-2), vectors, 0.0)[..., -rank:]
    return (columns64 @ vectors * scale).to(columns.dtype)


class DiagonalProjector(Projector):
    """What has an input of its own, a row that is looked up or an entry: the projection is lambda / (lambda + energy).

    The energy is the sum of the squared inputs; for a row it is how often it was looked up. The parts are ``counts``
    and those ``gathered`` for the next.
    """

    kept = "counts"
    lasting = ("counts",)

    def __init__(self, regularisation: float, *, mean: bool = False, by_energy: bool = False, **parts: Tensor) -> None:
        super().__init__(regularisation, mean=mean, by_energy=by_energy, **parts)

    def gather(self, inputs: Tensor) -> None:
        """Add up counts, energies, or the squares of mean inputs."""
        energy = inputs.square() if self.mean else inputs
        energy = torch.where(torch.isfinite(energy), energy, 0.0)
        self.parts["gathered"] = self.parts["gathered"] + energy if "gathered" in self.parts else energy

    def close(self, keep: float, group: Any | None) -> None:
        """Add the new energies to the old."""
        gathered = self.parts.pop("gathered", None)
        if gathered is not None:
            if not self.mean:
                sum_over_ranks([gathered], group)
            if self.by_energy:
                gathered = gathered / _mean_energy(gathered.reshape(1, -1, 1))
            self.parts["counts"] = keep * self.parts["counts"] + gathered if self.closed else gathered

    def _eigenvalues(self) -> Tensor:
        counts = self.parts["counts"]
        if self.regularisation == 0:
            return (counts == 0).to(counts.dtype)
        return self.regularisation / (self.regularisation + counts)

    def project(self, update: Tensor) -> Tensor:
        """Scale the update of each row or entry, the last axis."""
        return update * self._eigenvalues().to(update.dtype)

    def open_directions(self) -> tuple[float, int]:
        """The trace."""
        return float(self._eigenvalues().sum()), self.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """One group, and the number of rows or entries."""
        return 1, len(self.parts["counts"])


@dataclass(frozen=True)
class ProductMemory:
    """What one product's projection takes, and the limit on its rank; None keeps the whole matrix.

    A whole matrix takes groups x width squared values, a limited rank groups x (width + 1) x rank, rows and entries a
    value each.
    """

    product: Product
    rank: int | None
    num_bytes: int

    @property
    def kind(self) -> str:
        """How the projection is held, in a few words."""
        if self.product.kind != "matrix":
            return "diagonal"
        return "whole" if self.rank is None else f"rank {self.rank}"


@dataclass(frozen=True)
class ProjectionMemory:
    """What all projections of a network take, as far as is known before it runs; ``print`` shows it as a table.

    Attributes:
        layers: the products of torch's own kinds of layers.
        unplanned: parameters of no such layer; their products are seen when they run.
    """

    layers: tuple[ProductMemory, ...]
    unplanned: tuple[str, ...]

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
        if self.unplanned:
            lines.append(f"not known before they run: {', '.join(self.unplanned)}")
        return "\n".join(lines)


def estimate_memory(
    product: Product, *, rank: int | None, max_width: int, wide: Literal["rank", "refuse"]
) -> ProductMemory:
    """What the projection of a product will take.

    A product wider than ``max_width`` is limited to a rank that takes no more than the widest allowed matrix, or
    refused.
    """
    width = product.width
    if product.kind != "matrix":
        return ProductMemory(product, None, product.groups * width * _BYTES)
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
