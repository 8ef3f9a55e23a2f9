"""Every guard keeps what the seam promises."""

from __future__ import annotations

import pytest
import torch

from ramet.guards import (
    ElasticConsolidation,
    Guard,
    KroneckerPlasticity,
    NoGuard,
    OrthogonalProjection,
    TrustRegionProjection,
    WeightPlasticity,
    chain,
)
from ramet.guards.names import StepSizes
from ramet.params import Params
from ramet.testing.guards import GUARD_CHECKS, check_it_protects

GUARDS = {
    "none": NoGuard,
    "plasticity": lambda: WeightPlasticity(1000.0),
    "plasticity-explicit": lambda: WeightPlasticity(300.0, form="explicit"),
    "gpm": lambda: OrthogonalProjection.gpm(0.99),
    "trust-region": lambda: TrustRegionProjection(0.99),
    "projection-columns": lambda: OrthogonalProjection(0.01, inputs="columns"),
    "plasticity-search": lambda: WeightPlasticity(1000.0, eta=0.9, flush_every=3, decay=1.0, max_fisher_norm=10.0),
    "elastic": lambda: ElasticConsolidation(300.0),
    "elastic-implicit": lambda: ElasticConsolidation(1000.0, form="implicit", discount=0.9),
    "kronecker": lambda: KroneckerPlasticity(1000.0),
    "kronecker-explicit": lambda: KroneckerPlasticity(100.0, form="explicit"),
    "projection": lambda: OrthogonalProjection(0.1),
    "projection-zero": lambda: OrthogonalProjection(0.0),
    "projection-mean": lambda: OrthogonalProjection(0.01, inputs="mean"),
    "projection-rank": lambda: OrthogonalProjection(0.1, rank=3),
    "projection-forgetting": lambda: OrthogonalProjection(0.1, forgetting=0.5),
    "chain": lambda: chain(WeightPlasticity(1000.0), ElasticConsolidation(10.0), OrthogonalProjection(0.1)),
}


@pytest.mark.parametrize("check", GUARD_CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", GUARDS)
def test_promises(name, check):
    if name == "none" and check is check_it_protects:
        pytest.skip("NoGuard is there to protect nothing")
    check(GUARDS[name])


class _Broken(NoGuard):
    """A guard that breaks the promise it is made for: the suite must notice."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def step(self, params, step_sizes):
        return Guard.step(self, params, step_sizes)

    def remember(self, params, fisher=None):
        if self.fault == "off path":
            params["branches.0.weight"].data += 1

    def before_step(self, path: Params) -> None:
        if self.fault in ("gradients", "failing"):
            for param in path.values():
                param.grad += 1

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        for param in path.values():
            if self.fault == "fresh":
                param *= 0.5
            if self.fault == "failing":  # in a step that does not fail it keeps its promise
                param.grad -= 1

    def watch(self, module):
        self.calls = getattr(self, "calls", 0) + 1
        return super().watch(module)

    def state_dict(self):
        return {"calls": torch.tensor(self.calls)} if self.fault == "gathering" else {}

    def load_state_dict(self, state):
        if self.fault != "foreign":
            super().load_state_dict(state)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("gradients", "check_gradients_are_given_back"),
        ("failing", "check_a_failed_step_is_undone"),
        ("gathering", "check_discarding_drops_what_was_gathered"),
        ("fresh", "check_fresh_guard_changes_nothing"),
        ("fresh", "check_scaler_skips_a_step"),
        ("foreign", "check_foreign_state_is_refused"),
        ("nothing", "check_it_protects"),
    ],
)
def test_broken_guards_are_caught(fault, check):
    checks = {one.__name__: one for one in GUARD_CHECKS}
    with pytest.raises(AssertionError):
        checks[check](lambda: _Broken(fault))
