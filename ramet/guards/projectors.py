"""Three ways to hold one layer's projection: the whole matrix, a limited rank, and a diagonal for one-hot inputs.

Each gathers the inputs of the model being trained, and closes their directions when that model is finished. The
inputs of the current model are not in the projection while it trains (section 3.3), or it could not learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ramet.guards.closing import close_directions, close_gram, finite_columns, gram_of, reopen_gradually
from ramet.guards.ranks import sum_over_ranks, world_size


class Projector(ABC):
    """The projection of one product's updates, and the inputs that it will learn next.

    Args:
        regularisation: lambda of Eq. 7.
        mean: whether inputs come as means, which are over the samples of all ranks already.
    """

    def __init__(self, regularisation: float, *, mean: bool) -> None:
        self.regularisation = regularisation
        self.mean = mean

    @abstractmethod
    def gather(self, inputs: Tensor) -> None:
        """Take the inputs of one call, as ``layers.input_columns`` gives them."""

    @abstractmethod
    def close(self, keep: float, group: Any | None) -> None:
        """Close the directions gathered since the last time, once those before count only ``keep`` times as much."""

    @abstractmethod
    def project(self, update: Tensor) -> Tensor:
        """The part of an update that no seen input notices, [groups, outputs, width]."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether anything is closed; if not, ``project`` need not be called."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Groups and width, once something is closed."""

    @abstractmethod
    def open_directions(self) -> tuple[float, int]:
        """The sum of the projection's eigenvalues, and how many there are."""

    @abstractmethod
    def move(self, device: torch.device) -> None:
        """Bring everything to a device; nothing happens when it is there."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What is kept and gathered, by part."""


class MatrixProjector(Projector):
    """The whole matrix, groups x width x width values in float32 (float64 for float64 inputs).

    Args:
        regularisation: see ``Projector``.
        mean: see ``Projector``.
        matrix: P, [groups, width, width]; None for the identity, which is not allocated before it is needed.
        columns: gathered inputs, [groups, width, n], while there are at most ``width`` of them.
        gram: the gathered inputs' X X', [groups, width, width], once there are more.
    """

    def __init__(
        self,
        regularisation: float,
        *,
        mean: bool,
        matrix: Tensor | None = None,
        columns: Tensor | None = None,
        gram: Tensor | None = None,
    ) -> None:
        super().__init__(regularisation, mean=mean)
        self.matrix = matrix
        self.gram = gram
        self.dtype = torch.float32 if columns is None else columns.dtype
        self._columns = [] if columns is None else [columns]

    @property
    def closed(self) -> bool:
        """Whether anything is closed."""
        return self.matrix is not None

    def gather(self, inputs: Tensor) -> None:
        """Keep the columns, or add them to X X' once they are more than the width."""
        self.dtype = inputs.dtype
        self._columns.append(finite_columns(inputs))
        if sum(columns.shape[-1] for columns in self._columns) > inputs.shape[-2] or self.gram is not None:
            added = gram_of(torch.cat(self._columns, dim=-1))
            self.gram = added if self.gram is None else self.gram + added
            self._columns = []

    def take(self, group: Any | None) -> tuple[Tensor | None, Tensor | None]:
        """The gathered inputs of all ranks, either in columns or as their X X'; none are left."""
        columns = torch.cat(self._columns, dim=-1) if self._columns else None
        gram, self.gram, self._columns = self.gram, None, []
        if self.mean or world_size(group) == 1:
            return columns, gram
        if columns is not None:
            gram = gram_of(columns)
        if gram is not None:
            sum_over_ranks([gram], group)
        return None, gram

    def close(self, keep: float, group: Any | None) -> None:
        """Eq. 8 for all gathered inputs at once."""
        close_matrices([self], keep, group)

    def project(self, update: Tensor) -> Tensor:
        """Eq. 6, on the input side."""
        assert self.matrix is not None
        return update @ self.matrix.to(update.dtype)

    def open_directions(self) -> tuple[float, int]:
        """The trace."""
        assert self.matrix is not None
        return float(self.matrix.diagonal(dim1=-2, dim2=-1).sum()), self.matrix.shape[0] * self.matrix.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Groups and width."""
        assert self.matrix is not None
        return self.matrix.shape[0], self.matrix.shape[1]

    def move(self, device: torch.device) -> None:
        """Bring matrix and gathered inputs to a device."""
        self.matrix = None if self.matrix is None else self.matrix.to(device)
        self.gram = None if self.gram is None else self.gram.to(device)
        self._columns = [columns.to(device) for columns in self._columns]

    def tensors(self) -> dict[str, Tensor]:
        """Matrix, columns and gram, where there are any."""
        columns = torch.cat(self._columns, dim=-1) if self._columns else None
        parts = {"matrix": self.matrix, "columns": columns, "gram": self.gram}
        return {part: tensor for part, tensor in parts.items() if tensor is not None}


def close_matrices(projectors: Iterable[MatrixProjector], keep: float, group: Any | None) -> None:
    """``close`` for many: layers of the same shape are closed together in one batch of matrix products."""
    alike: dict[tuple[Any, ...], list[tuple[MatrixProjector, Tensor, Tensor]]] = defaultdict(list)
    for projector in projectors:
        columns, gram = projector.take(group)
        seen = columns if gram is None else gram
        if seen is None:
            continue
        matrix = projector.matrix
        if matrix is None:
            eye = torch.eye(seen.shape[-2], dtype=projector.dtype, device=seen.device)
            matrix = eye.expand(seen.shape[0], -1, -1)
        kind = (matrix.shape, seen.shape, matrix.dtype, matrix.device, projector.regularisation, gram is None)
        alike[kind].append((projector, matrix, seen))
    for (*_, regularisation, in_columns), members in alike.items():
        matrices = torch.stack([matrix for _, matrix, _ in members])  # [layers, groups, width, width]
        inputs = torch.stack([seen for _, _, seen in members])  # [layers, groups, width, n], or [..., width]
        if keep < 1.0:
            matrices = reopen_gradually(matrices, keep)
        close = close_directions if in_columns else close_gram
        for (projector, _, _), matrix in zip(members, close(matrices, inputs, regularisation), strict=True):
            projector.matrix = matrix.clone()


class RankProjector(Projector):
    r"""At most ``rank`` closed directions, groups x width x rank values: for layers too wide for the whole matrix.

    The strongest directions of the inputs' :math:`X X^\top \approx U E U^\top` are kept (``basis`` U and ``energy`` E),
    so that :math:`P = I - U E (\lambda I + E)^{-1} U^\top`, which is exact while the inputs span no more than ``rank``
    directions. When they span more, the weakest are dropped, which opens them again.
    """

    def __init__(
        self,
        regularisation: float,
        rank: int,
        *,
        mean: bool,
        basis: Tensor | None = None,
        energy: Tensor | None = None,
        columns: Tensor | None = None,
    ) -> None:
        super().__init__(regularisation, mean=mean)
        self.rank = rank
        self.basis = basis
        self.energy = energy
        self._columns = columns

    @property
    def closed(self) -> bool:
        """Whether anything is closed."""
        return self.basis is not None

    def gather(self, inputs: Tensor) -> None:
        """Keep the columns; more than ``rank`` are reduced to the strongest directions."""
        inputs = finite_columns(inputs)
        for block in torch.split(inputs, max(self.rank, 64), dim=-1):
            columns = block if self._columns is None else torch.cat([self._columns, block], dim=-1)
            self._columns = columns if columns.shape[-1] <= self.rank else _strongest(columns, self.rank)

    def close(self, keep: float, group: Any | None) -> None:
        """Add the gathered inputs to the kept directions."""
        if self._columns is None:
            return
        columns, self._columns = self._columns, None
        if world_size(group) > 1 and not self.mean:
            shape = (*columns.shape[:-1], self.rank)
            padded = columns.new_zeros(shape)
            padded[..., : columns.shape[-1]] = columns
            everyone = [torch.empty_like(padded) for _ in range(world_size(group))]
            torch.distributed.all_gather(everyone, padded, group=group)
            columns = torch.cat(everyone, dim=-1)
        if self.basis is not None and self.energy is not None:
            columns = torch.cat([self.basis * (keep * self.energy).sqrt().unsqueeze(-2), columns], dim=-1)
        strongest = _strongest(columns, self.rank)
        lengths = torch.linalg.vector_norm(strongest, dim=-2)
        self.basis = strongest / lengths.clamp(min=torch.finfo(lengths.dtype).tiny).unsqueeze(-2)
        self.energy = lengths.square().clamp(max=torch.finfo(lengths.dtype).max)

    def project(self, update: Tensor) -> Tensor:
        """Take out the closed share of each kept direction."""
        assert self.basis is not None and self.energy is not None
        basis = self.basis.to(update.dtype)
        return update - (update @ basis * self._closed_share().to(update.dtype).unsqueeze(-2)) @ basis.mT

    def _closed_share(self) -> Tensor:
        """1 minus the eigenvalue of P in each kept direction, [groups, rank]."""
        assert self.energy is not None
        floor = torch.finfo(self.energy.dtype).tiny
        return self.energy / (self.energy + self.regularisation).clamp(min=floor)

    def open_directions(self) -> tuple[float, int]:
        """The trace of P."""
        assert self.basis is not None
        count = self.basis.shape[0] * self.basis.shape[1]
        return count - float(self._closed_share().sum()), count

    @property
    def shape(self) -> tuple[int, int]:
        """Groups and width."""
        assert self.basis is not None
        return self.basis.shape[0], self.basis.shape[1]

    def move(self, device: torch.device) -> None:
        """Bring directions and gathered inputs to a device."""
        self.basis = None if self.basis is None else self.basis.to(device)
        self.energy = None if self.energy is None else self.energy.to(device)
        self._columns = None if self._columns is None else self._columns.to(device)

    def tensors(self) -> dict[str, Tensor]:
        """Basis, energy and columns, where there are any."""
        parts = {"basis": self.basis, "energy": self.energy, "columns": self._columns}
        return {part: tensor for part, tensor in parts.items() if tensor is not None}


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
    """How often each index was seen: one-hot inputs make the projection diagonal, lambda / (lambda + count)."""

    def __init__(self, regularisation: float, *, counts: Tensor | None = None, gathered: Tensor | None = None) -> None:
        super().__init__(regularisation, mean=False)
        self.counts = counts
        self._gathered = gathered

    @property
    def closed(self) -> bool:
        """Whether anything is closed."""
        return self.counts is not None

    def gather(self, inputs: Tensor) -> None:
        """Count."""
        self._gathered = inputs if self._gathered is None else self._gathered + inputs

    def close(self, keep: float, group: Any | None) -> None:
        """Add the new counts to the old."""
        if self._gathered is None:
            return
        gathered, self._gathered = self._gathered, None
        sum_over_ranks([gathered], group)
        self.counts = gathered if self.counts is None else keep * self.counts + gathered

    def _eigenvalues(self) -> Tensor:
        assert self.counts is not None
        if self.regularisation == 0:
            return (self.counts == 0).to(self.counts.dtype)
        return self.regularisation / (self.regularisation + self.counts)

    def project(self, update: Tensor) -> Tensor:
        """Scale the update of each index."""
        return update * self._eigenvalues().to(update.dtype)

    def open_directions(self) -> tuple[float, int]:
        """The trace."""
        assert self.counts is not None
        return float(self._eigenvalues().sum()), len(self.counts)

    @property
    def shape(self) -> tuple[int, int]:
        """One group, and the number of indices."""
        assert self.counts is not None
        return 1, len(self.counts)

    def move(self, device: torch.device) -> None:
        """Bring the counts to a device."""
        self.counts = None if self.counts is None else self.counts.to(device)
        self._gathered = None if self._gathered is None else self._gathered.to(device)

    def tensors(self) -> dict[str, Tensor]:
        """Counts, and those gathered, where there are any."""
        parts = {"counts": self.counts, "gathered": self._gathered}
        return {part: tensor for part, tensor in parts.items() if tensor is not None}
