"""What a size takes of a network: pieces of its tensors, numbers of its modules, and the blocks that it leaves out.

A cut keeps the *first* units of each group, which is why units are put in order first (``ordering.py``). It is made in
two ways: ``applied`` lends a module the pieces of its own tensors for a while, so that gradients reach the whole, and
``carve`` makes a module that holds copies of them and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ramet.tracing.axes import Axis
from ramet.tracing.coupling import Coupling
from ramet.tracing.expansions import Expansion, expand_layout, wider
from ramet.tracing.numbers import renumber_module
from ramet.tracing.rules import tensors_in

_NORMALISED = (nn.LayerNorm, nn.RMSNorm)


@dataclass(frozen=True)
class Setting:
    """A size in numbers: the units that are kept of groups, the blocks that are left out, the sizes of kernels."""

    units: Mapping[str, int] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    kernels: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: Setting) -> Setting:
        """Both; they speak of different things."""
        kernels = {**self.kernels, **other.kernels}
        return Setting({**self.units, **other.units}, self.skipped | other.skipped, kernels)


@dataclass(frozen=True)
class Piece:
    """The entries that are taken along one dimension: a run of them, or those of an index."""

    dim: int
    start: int
    length: int
    index: Tensor | None = None

    def of(self, tensor: Tensor) -> Tensor:
        """The piece; a view where it is a run."""
        if self.index is None:
            return tensor.narrow(self.dim, self.start, self.length)
        return tensor.index_select(self.dim, self.index.to(tensor.device))


Pieces = tuple[Piece, ...]


def take(tensor: Tensor, pieces: Pieces) -> Tensor:
    """What pieces leave of a tensor."""
    for piece in pieces:
        tensor = piece.of(tensor)
    return tensor


def put_back(tensor: Tensor, pieces: Pieces, values: Tensor) -> None:
    """Write values into the place that they were taken from, where that was no view."""
    places = torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape)
    tensor.view(-1).index_copy_(0, take(places, pieces).flatten(), values.flatten())


class SliceCut:
    """One size of a network: what ``setting`` takes of the tensors that a trace found in it."""

    def __init__(self, network: nn.Module, coupling: Coupling, setting: Setting) -> None:
        sizes = {coupling.groups[name].axis: count for name, count in setting.units.items()}
        self.sizes = {axis: count for axis, count in sizes.items() if count < axis.size}
        self.skipped = setting.skipped
        self.pieces: dict[str, Pieces] = {}
        self.numbers: dict[tuple[str, str], Any] = {
            place: wider(layout, self.sizes)
            for place, layout in coupling.attributes.items()
            if any(axis in self.sizes for term in layout for axis in term)
        }
        for name, layouts in coupling.layouts.items():
            taken = [_piece(dim, layout, self.sizes) for dim, layout in enumerate(layouts)]
            if any(piece is not None for piece in taken):
                self.pieces[name] = tuple(piece for piece in taken if piece is not None)
        for name, size in setting.kernels.items():
            self._crop(name, network.get_submodule(name), size)
        self.aliases = {name: coupling.aliases[name] for name in self.pieces}
        for name, pieces in self.pieces.items():
            for alias in self.aliases[name]:
                path = alias.rpartition(".")[0]
                module = network.get_submodule(path)
                if isinstance(module, _NORMALISED) and alias.endswith("weight"):
                    length = {piece.dim: piece.length for piece in pieces}
                    shape = tuple(length.get(dim, size) for dim, size in enumerate(module.normalized_shape))
                    self.numbers[path, "normalized_shape"] = shape

    def _crop(self, name: str, convolution: nn.Module, size: int) -> None:
        """Take the centre of the kernels of a convolution, and pad as much less."""
        assert isinstance(convolution, nn.modules.conv._ConvNd)
        whole = convolution.kernel_size[0]
        if size == whole:
            return
        crop = tuple(Piece(2 + place, (whole - size) // 2, size) for place in range(len(convolution.kernel_size)))
        weight = f"{name}.weight"
        self.pieces[weight] = (*self.pieces.get(weight, ()), *crop)
        self.numbers[name, "kernel_size"] = (size,) * len(crop)
        self.numbers[name, "padding"] = (size // 2,) * len(crop)
        self.numbers[name, "_reversed_padding_repeated_twice"] = [size // 2] * (2 * len(crop))

    @contextmanager
    def applied(self, network: nn.Module) -> Iterator[None]:
        """Within the block the network computes this size; gradients and statistics go to its own tensors."""
        undo: list[tuple[dict[str, Any], str, Any]] = []
        written: list[tuple[Tensor, Pieces, Tensor]] = []
        try:
            for name, pieces in self.pieces.items():
                place, leaf = _place(network, name)
                whole = place[leaf]
                piece = take(whole, pieces)
                if not isinstance(whole, nn.Parameter) and any(p.index is not None for p in pieces):
                    written.append((whole, pieces, piece))
                for alias in self.aliases[name]:
                    place, leaf = _place(network, alias)
                    undo.append((place, leaf, place[leaf]))
                    place[leaf] = piece
            for (path, attribute), value in self.numbers.items():
                own = network.get_submodule(path).__dict__
                undo.append((own, attribute, own[attribute]))
                own[attribute] = value
            for block in self.skipped:
                own = network.get_submodule(block).__dict__
                undo.append((own, "forward", own.get("forward", _NOTHING)))
                own["forward"] = passing(network.get_submodule(block))
            yield
            if network.training:
                for whole, pieces, piece in written:
                    with torch.no_grad():
                        put_back(whole, pieces, piece)
        finally:
            for place, key, value in reversed(undo):
                if value is _NOTHING:
                    del place[key]
                else:
                    place[key] = value

    def carve(self, network: nn.Module) -> None:
        """Make the network this size for good, with copies of its own pieces."""
        for name, pieces in self.pieces.items():
            place, leaf = _place(network, name)
            whole = place[leaf]
            piece: Tensor = take(whole.detach(), pieces).clone(memory_format=torch.contiguous_format)
            if isinstance(whole, nn.Parameter):
                piece = nn.Parameter(piece, requires_grad=whole.requires_grad)
            for alias in self.aliases[name]:
                place, leaf = _place(network, alias)
                place[leaf] = piece
        for (path, attribute), value in self.numbers.items():
            setattr(network.get_submodule(path), attribute, value)
        for path in {alias.rpartition(".")[0] for names in self.aliases.values() for alias in names}:
            renumber_module(network.get_submodule(path))
        # The last of a list first: what comes behind a block that is taken out gets another number.
        for block in sorted(self.skipped, key=lambda name: int(name.rpartition(".")[2]), reverse=True):
            path, _, number = block.rpartition(".")
            holder: Any = network.get_submodule(path)
            del holder[list(holder._modules).index(number)]


_NOTHING = object()


def passing(block: nn.Module) -> Callable[..., Any]:
    """A forward that gives back the first tensor that it gets."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return tensors_in((args, kwargs))[0]

    return forward


def _piece(dim: int, layout: Any, sizes: Mapping[Axis, int]) -> Piece | None:
    """What is kept along a dimension; nothing if that is all."""
    if not any(axis in sizes for term in layout for axis in term):
        return None
    kept = {axis: Expansion(torch.arange(count)) for axis, count in sizes.items()}
    index = expand_layout(layout, kept).index
    first = int(index[0])
    is_run = torch.equal(index, torch.arange(first, first + len(index)))
    return Piece(dim, first, len(index), None if is_run else index)


def _place(network: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """The dictionary of a module that holds a tensor, and its key there."""
    path, _, leaf = name.rpartition(".")
    module = network.get_submodule(path)
    return (module._parameters if leaf in module._parameters else module._buffers), leaf
