"""Updates that do not disturb the models trained before: see ``Guard`` for how a loop drives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.guards.base import Guard
    from ramet.guards.chaining import NoGuard, chain
    from ramet.guards.elastic import ElasticConsolidation
    from ramet.guards.fisher import diagonal_fisher, sample_labels
    from ramet.guards.kronecker import KroneckerPlasticity
    from ramet.guards.making import make_guard
    from ramet.guards.names import step_sizes
    from ramet.guards.plasticity import WeightPlasticity
    from ramet.guards.projection import OrthogonalProjection
    from ramet.guards.quadratic import quadratic_penalty
    from ramet.guards.registry import GUARDS

__all__ = [
    "GUARDS",
    "ElasticConsolidation",
    "Guard",
    "KroneckerPlasticity",
    "NoGuard",
    "OrthogonalProjection",
    "WeightPlasticity",
    "chain",
    "diagonal_fisher",
    "make_guard",
    "quadratic_penalty",
    "sample_labels",
    "step_sizes",
]

__getattr__ = lazy_front(__name__)
