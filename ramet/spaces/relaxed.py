"""Supernets whose choices are mixed instead of made: what DARTS differentiates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, Space, Supernet
from ramet.spaces.cells.dag import DenseDag
from ramet.spaces.darts.cell import DartsCell


class Relaxed(nn.Module):
    """A supernet in which every edge adds up all its operations, weighted; a ``ConfigError`` if none can be mixed."""

    def __init__(self, supernet: Supernet, space: Space) -> None:
        super().__init__()
        self.supernet, self.space = supernet, space
        cells = [stage for stage in supernet.stages if _is_cell(stage)]
        if not cells:
            raise ConfigError(f"DARTS needs cells that can be mixed, but {type(space).__name__} has none.")

    @property
    def num_options(self) -> list[int]:
        """The number of operations of each edge; for ``Darts`` those of the normal, then of the reduction cell."""
        return list(self.space.mixed_options)

    def forward(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Logits of the mixture; for each edge the weights of its operations, which sum to one."""
        value: Any = x
        half = len(weights) // 2
        for stage in self.supernet.stages:
            if isinstance(stage, DartsCell):
                value = stage.forward_mixed(value, weights[half:] if stage.reduction else weights[:half])
            elif _is_cell(stage):
                nodes = stage.dag.forward_mixed(stage.preprocess(value), weights)  # type: ignore[union-attr, operator]
                value = stage.finish(nodes)  # type: ignore[operator]
            else:
                value = stage(value, self.space[0])
        logits: Tensor = value
        return logits

    def derive(self, weights: Sequence[Tensor]) -> Arch:
        """The architecture of the strongest operations; the space says which they are."""
        return self.space.strongest([row.detach().cpu() for row in weights])


def _is_cell(stage: nn.Module) -> bool:
    return isinstance(stage, DartsCell) or isinstance(getattr(stage, "dag", None), DenseDag)
