"""How a projection closes directions: its numbers, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.core_spaces import CoreProjector
from ramet.guards.layers import Kind, Product
from ramet.guards.projectors import (
    DiagonalProjector,
    MatrixProjector,
    ProductMemory,
    Projector,
    RankProjector,
    estimate_memory,
)

Unit = Literal["input", "energy", "hold"]
"""What lambda is compared with; see ``OrthogonalProjection``."""
Inputs = Literal["all", "columns", "mean"]
"""Which inputs are closed; see ``OrthogonalProjection``."""


@dataclass(frozen=True, kw_only=True)
class ProjectionSettings:
    """The options of ``OrthogonalProjection`` that say how each product's projection is held and closed.

    Raises:
        ConfigError: for a value outside its range.
    """

    regularisation: float
    unit: Unit
    threshold: float | None
    inputs: Inputs
    rank: int | None
    max_width: int
    wide: Literal["rank", "refuse"]
    max_bytes: int
    forgetting: float
    reopen_every: int | None

    def __post_init__(self) -> None:
        given: object = self.regularisation
        if not isinstance(given, Real) or not 0.0 <= self.regularisation < float("inf"):
            raise ConfigError(f"regularisation must be at least 0 and finite, but got {self.regularisation!r}.")
        if self.unit not in get_args(Unit):
            raise ConfigError(f"unit must be one of {', '.join(get_args(Unit))}, but got {self.unit!r}.")
        if self.unit == "hold" and not 0.0 < self.regularisation <= 1.0:
            raise ConfigError(f"a share to hold must be above 0 and at most 1, but got {self.regularisation}.")
        if self.threshold is not None:
            if not 0.0 < self.threshold <= 1.0:
                raise ConfigError(f"threshold must be above 0 and at most 1, but got {self.threshold}.")
            if self.unit != "input" or self.rank is not None or self.forgetting != 1.0:
                raise ConfigError(
                    "a threshold of energy has no unit, rank or forgetting beside it, but got "
                    f"{(self.unit, self.rank, self.forgetting)}."
                )
        if self.inputs not in get_args(Inputs):
            raise ConfigError(f"inputs must be one of {', '.join(get_args(Inputs))}, but got {self.inputs!r}.")
        if self.wide not in ("rank", "refuse"):
            raise ConfigError(f"wide must be 'rank' or 'refuse', but got {self.wide!r}.")
        if not 0.0 < self.forgetting <= 1.0:
            raise ConfigError(f"forgetting must be above 0 and at most 1, but got {self.forgetting}.")
        counts = {"rank": self.rank, "max_width": self.max_width, "reopen_every": self.reopen_every}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, but got {value}.")

    def memory_of(self, product: Product) -> ProductMemory:
        """What the projection of a product will take."""
        return estimate_memory(product, rank=self.rank, max_width=self.max_width, wide=self.wide)

    def projector(self, kind: Kind, rank: int | None, **state: Tensor) -> Projector:
        """A projection of a kind of product, of a limited rank or none, with what was kept and gathered before."""
        mean, by_energy = self.inputs != "all", self.unit != "input"
        if self.threshold is not None:
            if kind == "matrix":
                return CoreProjector(self.threshold, mean=mean, **state)
            return DiagonalProjector(0.0, mean=mean and kind == "entries", by_energy=False, **state)
        # Of a direction of energy 1, lambda / (lambda + 1) stays open.
        lam = (1.0 - self.regularisation) / self.regularisation if self.unit == "hold" else self.regularisation
        if kind != "matrix":
            return DiagonalProjector(lam, mean=mean and kind == "entries", by_energy=by_energy, **state)
        if rank is not None:
            return RankProjector(lam, rank, mean=mean, by_energy=by_energy, **state)
        return MatrixProjector(lam, mean=mean, by_energy=by_energy, **state)
