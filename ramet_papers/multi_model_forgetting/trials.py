"""The trainings behind both figures as tasks, and the run that keeps their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from ramet.data import Split
from ramet.execution import WorkItem, pulse
from ramet.guards import NoGuard
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.multi_model_forgetting.methods import METHODS
from ramet_papers.multi_model_forgetting.presets import ForgettingPreset, TwoModelSetup
from ramet_papers.multi_model_forgetting.two_models import (
    TwoModels,
    fishers_of_first,
    new_models,
    remember_first,
    train_first,
    train_second,
)
from ramet_papers.recorded import finish_tasks, open_recorded
from ramet_papers.workspace import Workspace

__all__ = ["Json", "compare_guards", "open_run", "run_tasks", "share_layers", "trial_seed"]

KIND = "multi-model-forgetting"


def compare_guards(
    setup: TwoModelSetup,
    *,
    seed: int,
    convergence: float,
    entries: list[list[Any]],
    split: Literal["validation", "test"],
) -> Json:
    """Train A once, then B under each guard from there: the same A, the same B, the same mini-batches.

    Args:
        setup: the data and the budget.
        seed: of weights and mini-batches.
        convergence: how far A is trained, as a share of its best accuracy; 1 to the end of its budget.
        entries: name and strength of each guard.
        split: where A is measured while B is trained, and B in the end.
    """
    models, reached = _first_model(setup, seed, convergence)
    fishers = fishers_of_first(models, setup.kept, seed)
    finished = {name: tensor.clone() for name, tensor in models.state_dict().items()}
    courses = []
    for done, (name, strength) in enumerate(entries):
        pulse(done / len(entries))
        models.load_state_dict(finished)
        guard = METHODS[name].make(strength)
        remember_first(models, guard, setup.kept, fishers[METHODS[name].fisher])
        course = train_second(models, guard, setup.data, setup.budget, seed, watched=_watched(setup, split))
        courses.append({"guard": name, "strength": strength, **asdict(course)})
    return {"reached": reached, "courses": courses}


def share_layers(setup: TwoModelSetup, *, seed: int, shared_layers: int, share_head: bool) -> Json:
    """Train A, then B on some of A's layers, without a guard."""
    models = new_models(setup.data, setup.budget, seed, shared_layers=shared_layers, share_head=share_head)
    train_first(models, setup.data, setup.budget, seed, watched=setup.choosing)
    return asdict(train_second(models, NoGuard(), setup.data, setup.budget, seed, watched=_watched(setup, "test")))


def _first_model(setup: TwoModelSetup, seed: int, convergence: float) -> tuple[TwoModels, float]:
    models = new_models(setup.data, setup.budget, seed)
    best = train_first(models, setup.data, setup.budget, seed, watched=setup.choosing)
    if convergence >= 1:
        return models, best
    models = new_models(setup.data, setup.budget, seed)
    goal = convergence * best
    return models, train_first(models, setup.data, setup.budget, seed, watched=setup.choosing, stop_at=goal)


def _watched(setup: TwoModelSetup, split: Literal["validation", "test"]) -> Split:
    return setup.choosing if split == "validation" else setup.data.test


def trial_seed(seed: int, phase: Literal["tuning", "reported"], number: int) -> int:
    """The seed of a trial: those that strengths are chosen on are apart from those that are reported."""
    return derive_seed(seed, phase, number)


def open_run(workspace: Workspace, preset: ForgettingPreset, setup: TwoModelSetup, figure: str) -> Run:
    """The run of a figure, gone on with if it is there; one that answered another question is replaced."""
    path = workspace.runs / f"{KIND}-{preset.name}" / figure
    return open_recorded(path, KIND, preset.to_json(setup, workspace.seed))


def run_tasks(
    workspace: Workspace, run: Run, tasks: Sequence[WorkItem], setup: TwoModelSetup, label: str
) -> list[Json]:
    """The results of tasks in their order; those that the run has recorded are not run again."""
    found = finish_tasks(run, workspace.executor, tasks, setup, label)
    return [found[task.key] for task in tasks]
