"""Finished runs with figures that are made up: what lists, compares and shows runs needs no training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ramet.jobs.search import SearchJob
from ramet.jobs.search.result import FoundArchitecture, SearchResult, TrainedArchitecture
from ramet.runs import Run


def search_result(errors: Mapping[str, float]) -> SearchResult:
    """A search that trained architectures of these names, with these validation errors."""
    candidates = [
        FoundArchitecture(arch=[place], name=name, error=error + 0.1, parameters=1000 + place, flops=5000)
        for place, (name, error) in enumerate(errors.items())
    ]
    trained = [
        TrainedArchitecture(name=name, arch=[place], validation=error, test=error + 0.01, tests=[error + 0.01])
        for place, (name, error) in enumerate(errors.items())
    ]
    return SearchResult(
        metric="error",
        best=min(errors, key=lambda name: errors[name]),
        candidates=candidates,
        trained=trained,
        pareto={"parameters": list(errors)},
        epochs=2,
        diverged=0,
        exported=None,
        cells=[],
        plan={"strategy": "evolution", "guard": "none", "sharing": "full"},
    )


def write_search(path: Path, errors: Mapping[str, float], seed: int = 0) -> Path:
    """The directory of such a search."""
    with Run.create(path, "search", SearchJob(seed=seed).to_json()) as run:
        for epoch in range(3):
            run.records.append(f"epoch/{epoch}", loss=1 / (epoch + 1), archs=list(errors))
        run.records.append("result", **search_result(errors).to_json())
    return path
