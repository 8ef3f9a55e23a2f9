"""What share of a search's CPU time goes into looking at itself: errors after turns and epochs, copies to go back to.

The searches are those of `ramet search` as it stands, with and without a guard, and a search of one mini-batch a child
in the DARTS space, as *Disturbance-immune weight sharing* has it, in which a fifth of the children is measured: two
passes over the error samples take longer than a turn there. Digits, one thread, CPU time within one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.rows import Row
from ramet.jobs.search import SearchJob
from ramet.searching import Search, SearchPlan
from ramet.searching.undoing import Undo

BRIEF = {"epochs": 2, "warmup_epochs": 1}
ONE_BATCH = SearchPlan(
    models_per_epoch=70,
    batches_per_model=1,
    strategy_steps=40,
    archs_per_step=2,
    reward_samples=128,
    error_samples=300,
    measured_models=14,
    **BRIEF,  # type: ignore[arg-type]
)
JOBS = {
    "ramet search": SearchJob(plan=SearchPlan(**BRIEF)),  # type: ignore[arg-type]
    "ramet search --guard projection": SearchJob(plan=SearchPlan(guard="projection", **BRIEF)),  # type: ignore[arg-type]
    "one mini-batch a child, darts": SearchJob(space="darts:channels=4,num_cells=3,num_nodes=2", plan=ONE_BATCH),
    "the same, projection": SearchJob(
        space="darts:channels=4,num_cells=3,num_nodes=2", plan=replace(ONE_BATCH, guard="projection")
    ),
}
LIMIT = 0.25


def run() -> list[Row]:
    torch.set_num_threads(1)
    return [share_row(name, job) for name, job in JOBS.items()]


def share_row(name: str, job: SearchJob) -> Row:
    """The row of one search."""
    spent = {"diagnostics": 0.0}
    loop = Search(job.build(), replace(job.plan, seed=0))

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent["diagnostics"] += time.process_time() - start

        return call

    loop._undo = Undo(loop.network, loop._optimizer)
    for owner, method in (
        (loop, "_error"),
        (loop, "_errors"),
        (loop, "_is_finite"),
        (loop._undo, "note"),
        (loop._undo, "keep"),
    ):
        setattr(owner, method, timed(getattr(owner, method)))
    start = time.process_time()
    loop.run()
    total = time.process_time() - start
    return Row(
        name=f"diagnostics of {name} / all",
        value=spent["diagnostics"] / total,
        limit=LIMIT,
        detail=f"{spent['diagnostics']:.2f} / {total:.2f} CPU-s, {job.plan.error_samples} samples a measurement",
    )
