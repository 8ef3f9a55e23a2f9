"""Updates that do not disturb the models trained before: see ``Guard`` for how a loop drives them."""

from ramet.guards.base import Guard
from ramet.guards.chain import NoGuard, chain
from ramet.guards.elastic import ElasticConsolidation
from ramet.guards.fisher import diagonal_fisher, sample_labels
from ramet.guards.kronecker import KroneckerPlasticity
from ramet.guards.names import step_sizes
from ramet.guards.plasticity import WeightPlasticity
from ramet.guards.projection import OrthogonalProjection
from ramet.guards.quadratic import quadratic_penalty
from ramet.guards.spec import GUARDS, make_guard

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
