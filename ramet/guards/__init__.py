"""Updates that do not disturb the models trained before: see ``Guard`` for how a loop drives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.guards.adapters import OrthogonalAdapters, design_adapters
    from ramet.guards.attaching import attach
    from ramet.guards.base import Guard
    from ramet.guards.chaining import NoGuard, chain
    from ramet.guards.coverage import UncoveredWarning
    from ramet.guards.elastic import ElasticConsolidation
    from ramet.guards.fisher import diagonal_fisher, sample_labels
    from ramet.guards.kronecker import KroneckerPlasticity
    from ramet.guards.making import make_guard
    from ramet.guards.matrix_products import product
    from ramet.guards.names import step_sizes
    from ramet.guards.novelty import NoveltyConstraints
    from ramet.guards.plasticity import WeightPlasticity
    from ramet.guards.projection import OrthogonalProjection
    from ramet.guards.quadratic import quadratic_penalty
    from ramet.guards.remembering import remember_batches
    from ramet.guards.trust_region import TrustRegionProjection
    from ramet.guards.tuning import tune
    from ramet.guards.turns import VoidGuardWarning

__all__ = ["GUARDS", "ElasticConsolidation", "Guard", "KroneckerPlasticity", "NoGuard", "OrthogonalProjection"]
__all__ += ["UncoveredWarning", "VoidGuardWarning", "WeightPlasticity", "chain", "diagonal_fisher", "make_guard"]
__all__ += ["NoveltyConstraints", "OrthogonalAdapters", "TrustRegionProjection", "attach", "design_adapters"]
__all__ += ["product", "quadratic_penalty", "remember_batches", "sample_labels", "step_sizes", "tune"]

__getattr__ = lazy_front(__name__)

GUARDS: Registry[Guard] = Registry(
    "guard",
    base="ramet.guards.base:Guard",
    group="ramet.guards",
    built_in={
        "none": "ramet.guards.chaining:NoGuard",
        "plasticity": "ramet.guards.plasticity:WeightPlasticity.for_search",
        "projection": "ramet.guards.projection:OrthogonalProjection.for_search",
        "gpm": "ramet.guards.projection:OrthogonalProjection.gpm",
        "nsas": "ramet.guards.novelty:NoveltyConstraints",
        "elastic": "ramet.guards.elastic:ElasticConsolidation.for_search",
        "kronecker": "ramet.guards.kronecker:KroneckerPlasticity",
    },
)
"""What keeps an update from disturbing the models that were trained on the same weights before.

A maker has the values that suit many models on one set of weights, one mini-batch a model.
"""
