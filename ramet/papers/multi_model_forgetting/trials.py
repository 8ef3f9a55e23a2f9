"""The trainings behind both figures as tasks, and the run that keeps their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from ramet.data import Split
from ramet.execution import Task, pulse
from ramet.guards import NoGuard
from ramet.papers.desk import Desk
from ramet.papers.multi_model_forgetting.methods import METHODS
from ramet.papers.multi_model_forgetting.presets import Bench, Preset
from ramet.papers.multi_model_forgetting.two_models import (
    TwoModels,
    fishers_of_first,
    new_models,
    remember_first,
    train_first,
    train_second,
)
from ramet.papers.recorded import Json, finish_tasks, open_recorded
from ramet.runs import Run
from ramet.seeding import derive_seed

__all__ = ["Json", "compare_guards", "open_run", "run_tasks", "share_layers", "trial_seed"]

KIND = "multi-model-forgetting"


def compare_guards(
    bench: Bench, *, seed: int, convergence: float, entries: list[list[Any]], split: Literal["validation", "test"]
) -> Json:
    """Train A once, then B under each guard from there: the same A, the same B, the same mini-batches.

    Args:
        bench: the data and the budget.
        seed: of weights and mini-batches.
        convergence: how far A is trained, as a share of its best accuracy; 1 to the end of its budget.
        entries: name and strength of each guard.
        split: where A is measured while B is trained, and B in the end.
    """
    models, reached = _first_model(bench, seed, convergence)
    fishers = fishers_of_first(models, bench.kept, seed)
    finished = {name: tensor.clone() for name, tensor in models.state_dict().items()}
    courses = []
    for done, (name, strength) in enumerate(entries):
        pulse(done / len(entries))
        models.load_state_dict(finished)
        guard = METHODS[name].make(strength)
        remember_first(models, guard, bench.kept, fishers[METHODS[name].fisher])
        course = train_second(models, guard, bench.data, bench.budget, seed, watched=_watched(bench, split))
        courses.append({"guard": name, "strength": strength, **asdict(course)})
    return {"reached": reached, "courses": courses}


def share_layers(bench: Bench, *, seed: int, shared_layers: int, share_head: bool) -> Json:
    """Train A, then B on some of A's layers, without a guard."""
    models = new_models(bench.data, bench.budget, seed, shared_layers=shared_layers, share_head=share_head)
    train_first(models, bench.data, bench.budget, seed, watched=bench.choosing)
    return asdict(train_second(models, NoGuard(), bench.data, bench.budget, seed, watched=_watched(bench, "test")))


def _first_model(bench: Bench, seed: int, convergence: float) -> tuple[TwoModels, float]:
    models = new_models(bench.data, bench.budget, seed)
    best = train_first(models, bench.data, bench.budget, seed, watched=bench.choosing)
    if convergence >= 1:
        return models, best
    models = new_models(bench.data, bench.budget, seed)
    goal = convergence * best
    return models, train_first(models, bench.data, bench.budget, seed, watched=bench.choosing, stop_at=goal)


def _watched(bench: Bench, split: Literal["validation", "test"]) -> Split:
    return bench.choosing if split == "validation" else bench.data.test


def trial_seed(seed: int, phase: Literal["tuning", "reported"], number: int) -> int:
    """The seed of a trial: those that strengths are chosen on are apart from those that are reported."""
    return derive_seed(seed, phase, number)


def open_run(desk: Desk, preset: Preset, bench: Bench, figure: str) -> Run:
    """The run of a figure, gone on with if it is there; one that answered another question is replaced."""
    path = desk.runs / f"{KIND}-{preset.name}" / figure
    return open_recorded(path, KIND, preset.to_json(bench, desk.seed))


def run_tasks(desk: Desk, run: Run, tasks: Sequence[Task], bench: Bench, label: str) -> list[Json]:
    """The results of tasks in their order; those that the run has recorded are not run again."""
    found = finish_tasks(run, desk.executor, tasks, bench, label)
    return [found[task.key] for task in tasks]
