"""The guards by name; a maker has the values that suit many models on one set of weights, one mini-batch a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.guards.base import Guard

GUARDS: Registry[Guard] = Registry(
    "guard",
    base="ramet.guards.base:Guard",
    group="ramet.guards",
    built_in={
        "none": "ramet.guards.chaining:NoGuard",
        "plasticity": "ramet.guards.plasticity:WeightPlasticity.for_search",
        "projection": "ramet.guards.projection:OrthogonalProjection.for_search",
        "elastic": "ramet.guards.elastic:ElasticConsolidation.for_search",
        "kronecker": "ramet.guards.kronecker:KroneckerPlasticity",
    },
)
"""What keeps an update from disturbing the models that were trained on the same weights before."""
