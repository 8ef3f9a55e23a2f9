"""Table 1's methods under one budget: DARTS, ENAS, NAO and random search, with and without the guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ramet.jobs.search import SearchJob
from ramet.ranking.metrics import Floats
from ramet.seeding import derive_seed
from ramet.training import Batches
from ramet_papers.disturbance_immune.table_1 import PRESETS
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.searches import GuardedSearches, final_error, guard_at, run_searches, train_random, with_data

PAPER = {
    ("random", "none"): None,
    ("DARTS", "none"): 97.24,
    ("ENAS", "none"): 97.11,
    ("ENAS", "projection"): 97.38,
    ("NAO", "none"): 96.47,
}
"""Test accuracies of Table 1: DARTS and ENAS with cutout, DI-NAS, and NAONet-WS; random networks have 96.71."""

STRATEGIES: Mapping[str, Mapping[str, str | None]] = {  # of each preset; none is the controller of the preset itself
    "small": {
        "random": "random",
        "DARTS": "darts",
        "ENAS": None,
        "NAO": "nao:num_seeds=40,num_starts=20,epochs=30,train_every=40",
    },
    "paper": {"random": "random", "DARTS": "darts", "ENAS": None, "NAO": "nao:num_seeds=600"},
}


def searches_of(study: GuardedSearches, strategies: Mapping[str, str | None], num_images: int) -> dict[str, SearchJob]:
    """The unguarded search of each method: all train the shared weights on equally many mini-batches.

    DARTS trains all children on each of them, which costs it several times as much; it takes whole epochs.
    """
    plan, found = study.job.plan, {}
    num_batches = plan.epochs * plan.models_per_epoch * plan.batches_per_model
    for name, strategy in strategies.items():
        own = plan if strategy is None else replace(plan, strategy=strategy)
        if own.is_relaxed:
            steps = Batches(num_images, study.job.recipe.batch_size, 0).steps_per_epoch
            epochs = max(2, round(num_batches / steps))  # DARTS takes whole epochs
            warmup = round(epochs * plan.warmup_epochs / plan.epochs)
            own = replace(own, epochs=epochs, warmup_epochs=warmup)
        found[name] = replace(study.job, plan=own)
    return found


def table_1_rows(experiment: Experiment) -> Outcome:
    """What each method finds, trained alone; the guard has the strength that is the paper's, or the strongest tried.

    DARTS has no guard: it trains all children at once, and there are no earlier models to disturb.
    """
    workspace, study = experiment.workspace, PRESETS[experiment.preset_name]
    num_images = len(with_data(study.job, workspace).build().data.train)
    guard = guard_at(study.guard, study.strengths[-1])
    random = 100 * (1 - train_random(workspace, study))
    rows: list[Row] = [_row(experiment, f"networks drawn uniformly, {len(random)}", "none", random, 96.71)]
    for name, job in searches_of(study, STRATEGIES[experiment.preset_name], num_images).items():
        for text in ("none",) if job.plan.is_relaxed else ("none", guard):
            own = replace(study, job=job)
            jobs = {f"{name} {text} {n}": own.of(derive_seed(workspace.seed, n), text) for n in range(study.seeds)}
            runs = run_searches(workspace, f"{study.name}-rows", jobs).values()
            accuracies = 100 * (1 - np.array([final_error(run) for run in runs]))
            rows.append(_row(experiment, name, text, accuracies, PAPER.get((name, text.partition(":")[0]))))
    plan = study.job.plan
    note = (
        f"{study.job.space} on cifar10 {study.job.data_options.given()}; each method trains the shared weights on "
        f"{plan.epochs * plan.models_per_epoch * plan.batches_per_model} mini-batches, and what it finds for "
        f"{plan.final_epochs} epochs by {plan.final_recipe}."
    )
    return Outcome("Disturbance-immune, Table 1 by methods", [tabled(rows, "Table 1 under one budget")], notes=[note])


def _row(experiment: Experiment, name: str, guard: str, accuracies: Floats, paper: float | None) -> Row:
    return {
        "search": name,
        "guard": guard,
        "test accuracy, %": experiment.mean(accuracies),
        "trainings": len(accuracies),
        "paper": paper,
    }
