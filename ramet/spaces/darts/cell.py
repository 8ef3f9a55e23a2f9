"""A cell of DARTS: in a supernet with all operations on all edges, in a network of its own with those it uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from ramet.spaces.base import Arch
from ramet.spaces.cells.dag import add
from ramet.spaces.darts.two_inputs import Pair, run_operation
from ramet.spaces.layers import concatenate
from ramet.spaces.operations import FactorisedReduction, make_strided, squeeze

if TYPE_CHECKING:
    from ramet.spaces.darts.space import Darts


class DartsCell(nn.Module):
    """One cell; see ``Darts`` for what it computes, and ``darts_stages`` for ``only``.

    ``older`` and ``newer`` are the channels of inputs 0 and 1. A reduction halves the image; after one, input 0 is
    twice as large as input 1.
    """

    def __init__(
        self,
        space: Darts,
        older: int,
        newer: int,
        channels: int,
        reduction: bool,
        after_reduction: bool,
        only: Arch | None,
    ) -> None:
        super().__init__()
        self.space, self.reduction = space, reduction
        self.drop_path = 0.0
        affine, momentum = only is not None, space.bn_momentum
        older_input = FactorisedReduction if after_reduction else squeeze
        self.preprocess_older: nn.Module = older_input(older, channels, momentum, affine)
        self.preprocess_newer = squeeze(newer, channels, momentum, affine)
        used = None if only is None else self._used(only)
        self.edges = nn.ModuleDict()
        for node in range(space.num_nodes):
            for start in range(node + 2):
                made = nn.ModuleDict()
                for option, name in enumerate(space.operations):
                    if used is None or (node, start, option) in used:
                        stride = 2 if reduction and start < 2 else 1
                        operation = make_strided(name, channels, stride, momentum, affine=affine)
                        if operation is not None:
                            made[str(option)] = operation
                self.edges[f"{start}to{node + 2}"] = made

    def _used(self, arch: Arch) -> set[tuple[int, int, int]]:
        nodes = self.space.cells(arch)[self.reduction]
        return {(number, start, option) for number, node in enumerate(nodes) for option, start in node}

    def forward(self, pair: Pair, arch: Arch) -> Pair:
        """The newer input and the cell's output, the concatenation of its nodes."""
        values = [self.preprocess_older(pair[0]), self.preprocess_newer(pair[1])]
        for number, node in enumerate(self.space.cells(arch)[self.reduction]):
            total: Tensor | None = None
            for option, start in node:
                total = add(total, self._edge(start, number + 2, option, values[start]))
            values.append(self._zeros(values[1]) if total is None else total)
        return pair[1], concatenate(values[2:])

    def forward_mixed(self, pair: Pair, weights: Sequence[Tensor]) -> Pair:
        """The relaxed cell: every operation on every edge, in the order of ``edges``, by weights that sum to one."""
        values = [self.preprocess_older(pair[0]), self.preprocess_newer(pair[1])]
        edge = 0
        for number in range(self.space.num_nodes):
            total: Tensor | None = None
            for start in range(number + 2):
                for option in range(len(self.space.operations)):
                    value = self._edge(start, number + 2, option, values[start])
                    if value is not None:
                        total = add(total, weights[edge][option] * value)
                edge += 1
            values.append(self._zeros(values[1]) if total is None else total)
        return pair[1], concatenate(values[2:])

    def _edge(self, start: int, end: int, option: int, x: Tensor) -> Tensor | None:
        options: nn.ModuleDict = self.edges[f"{start}to{end}"]  # type: ignore[assignment]
        if str(option) not in options:
            return None
        return run_operation(options[str(option)], x, self.drop_path if self.training else 0.0)

    def _zeros(self, x: Tensor) -> Tensor:
        """What a node holds that nothing reaches."""
        return x[:, :, ::2, ::2] * 0.0 if self.reduction else x * 0.0
