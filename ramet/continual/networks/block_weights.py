"""The tensors of a block apart from the module that computes with them, and adapters: small changes of some of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ramet.errors import ConfigError


class BlockWeights(nn.Module):
    """Tensors by their names in a network; parameters stay parameters, and those of several holders are one.

    >>> list(BlockWeights({"conv.weight": nn.Parameter(torch.ones(2))}).tensors())
    ['conv.weight']
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._names = {_key(name): name for name in tensors}
        for name, tensor in tensors.items():
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(_key(name), tensor)
            else:
                self.register_buffer(_key(name), tensor)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors themselves, by name."""
        return {name: getattr(self, key) for key, name in self._names.items()}

    def copied(self) -> BlockWeights:
        """The same values as tensors of their own."""
        return BlockWeights({name: _copy(tensor) for name, tensor in self.tensors().items()})


class WeightMap(nn.Module):
    """From a matrix that tasks share to one of the same shape that a task computes with; the same at the start."""

    @abstractmethod
    def forward(self, weight: Tensor) -> Tensor:
        """The matrix of the task."""


class LowRankMap(WeightMap):
    """Adds a matrix of low rank, over inputs and the whole kernel: ``weight + up @ down``; ``up`` begins at zero."""

    def __init__(self, shape: torch.Size, rank: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        inputs = math.prod(shape[1:])
        rank = min(rank, shape[0], inputs)
        drawn = torch.zeros(rank, inputs) if generator is None else torch.randn(rank, inputs, generator=generator)
        self.down = nn.Parameter(drawn / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        """Shapes [outputs, inputs, ...]."""
        return weight + (self.up @ self.down).view_as(weight)


class PointwiseMap(WeightMap):
    """Adds a convolution of one pixel beside one of a larger kernel: the same as a change of the kernel's middle."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.beside = nn.Parameter(torch.zeros(*shape[:2], *(1 for _ in shape[2:])))
        self._around = [side for size in reversed(shape[2:]) for side in ((size - 1) // 2, size // 2)]

    def forward(self, weight: Tensor) -> Tensor:
        """Shapes [outputs, inputs, ...]."""
        return weight + pad(self.beside, self._around)


class WholeMap(WeightMap):
    """Adds a change of the same shape: all of the matrix is the task's own."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.change = nn.Parameter(torch.zeros(shape))

    def forward(self, weight: Tensor) -> Tensor:
        """Shapes [outputs, inputs, ...]."""
        return weight + self.change


class BlockAdapter(nn.Module):
    """What a task has for itself beside a block that it shares: its biases and scales, and a map for each matrix.

    It begins as a change of nothing, and what it makes of the shared matrices are matrices of the same shapes: an
    adapted block can be written as a plain one.

    Args:
        block: the shared tensors.
        matrices: the names of those that get a map; other vectors are the task's own, other tables stay shared.
        values: ``rank``, of the maps of low rank; ``pointwise``, whether convolutions get a convolution of one pixel
            instead, if their kernel is larger; ``whole``, the names of matrices that change as a whole, none if it
            is not there.
        generator: what the maps' first factors are drawn from; zeros without, as when weights are loaded.

    Raises:
        ConfigError: the rank is less than 1.
    """

    def __init__(
        self,
        block: BlockWeights,
        matrices: Collection[str],
        values: Mapping[str, Any],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        rank = int(values["rank"])
        if rank < 1:
            raise ConfigError(f"the rank of an adapter must be at least 1, but got {rank}.")
        tensors = block.tensors()
        self.maps = nn.ModuleDict()
        for name, tensor in tensors.items():
            if name in matrices:
                has_pixels = tensor.ndim > 2 and math.prod(tensor.shape[2:]) > 1
                made: WeightMap
                if name in values.get("whole", ()):
                    made = WholeMap(tensor.shape)
                elif values["pointwise"] and has_pixels:
                    made = PointwiseMap(tensor.shape)
                else:
                    made = LowRankMap(tensor.shape, rank, generator)
                self.maps[_key(name)] = made.to(tensor.device, tensor.dtype)
        vectors = {name: _copy(tensor) for name, tensor in tensors.items() if _is_vector(tensor, name, matrices)}
        self.vectors = BlockWeights(vectors)
        self._names = {_key(name): name for name in tensors}

    def maps_by_name(self) -> dict[str, WeightMap]:
        """The maps by the names of their matrices."""
        return {self._names[key]: made for key, made in self.maps.items() if isinstance(made, WeightMap)}

    @torch.no_grad()
    def merged(self, block: BlockWeights) -> BlockWeights:
        """The block as the task sees it, as plain tensors of its own."""
        plain = block.copied()
        for name, tensor in (plain.tensors() | self.vectors.copied().tensors()).items():
            made = self.maps_by_name().get(name)
            plain.tensors()[name].copy_(tensor if made is None else made(tensor))
        return plain


def _is_vector(tensor: Tensor, name: str, matrices: Collection[str]) -> bool:
    is_parameter = isinstance(tensor, nn.Parameter) and name not in matrices
    return is_parameter and tensor.numel() == max(tensor.shape, default=1)


def _copy(tensor: Tensor) -> Tensor:
    copied = tensor.detach().clone()
    return nn.Parameter(copied, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else copied


def _key(name: str) -> str:
    return name.replace(".", "/")  # which torch takes in the name of a parameter
