"""The guards that are compared, and how strong each may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ramet.guards import (
    ElasticConsolidation,
    Guard,
    KroneckerPlasticity,
    NoGuard,
    OrthogonalProjection,
    WeightPlasticity,
    chain,
)
from ramet_papers.multi_model_forgetting.two_models import FisherKind


@dataclass(frozen=True)
class ComparedGuard:
    """One way to guard A."""

    make: Callable[[float], Guard]  # the guard of a strength
    # What the strength is chosen from, the weakest first; the chain varies that of plasticity alone. For a projection
    # it is lambda, which closes the more, the smaller it is.
    strengths: tuple[float, ...]
    fisher: FisherKind = "per-sample"  # where the importance of weights comes from


# On two models, elastic consolidation is the explicit penalty of plasticity; what differs is whose labels the Fisher
# information takes. The explicit penalties end where they would diverge, at step size x strength x Fisher = 2.
METHODS: Mapping[str, ComparedGuard] = {
    "none": ComparedGuard(lambda strength: NoGuard(), (0.0,)),
    "plasticity": ComparedGuard(WeightPlasticity, (1e3, 1e4, 1e5, 1e6)),
    "plasticity, explicit": ComparedGuard(
        lambda alpha: WeightPlasticity(alpha, form="explicit"), (3.0, 10.0, 30.0, 100.0)
    ),
    "plasticity, mini-batch Fisher": ComparedGuard(WeightPlasticity, (1e5, 1e6, 1e7, 1e8), fisher="mini-batch"),
    "Kronecker plasticity": ComparedGuard(KroneckerPlasticity, (1e2, 1e3, 1e4, 1e5)),
    "elastic": ComparedGuard(ElasticConsolidation, (3.0, 10.0, 30.0, 100.0), fisher="sampled-labels"),
    "projection, mean inputs": ComparedGuard(
        lambda size: OrthogonalProjection(size, inputs="mean"), (10.0, 1.0, 0.1, 0.01)
    ),
    "projection, all inputs": ComparedGuard(
        lambda size: OrthogonalProjection(size, inputs="all"), (100.0, 10.0, 1.0, 0.1)
    ),
    "plasticity + projection": ComparedGuard(
        lambda alpha: chain(WeightPlasticity(alpha), OrthogonalProjection(1.0, inputs="mean")), (1e3, 1e4, 1e5, 1e6)
    ),
}
