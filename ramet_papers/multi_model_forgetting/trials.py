"""The trainings behind both figures as tasks, and the run that keeps their results."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from ramet.data import Split
from ramet.execution import pulse
from ramet.guards import NoGuard
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.experiment import Experiment, Trials
from ramet_papers.multi_model_forgetting.presets import METHODS, ForgettingPreset, TwoModelSetup
from ramet_papers.multi_model_forgetting.two_models import (
    TwoModels,
    fishers_of_first,
    new_models,
    remember_first,
    train_first,
    train_second,
)

KIND = "multi-model-forgetting"
SplitName = Literal["validation", "test"]


def compare_guards(
    setup: TwoModelSetup, *, seed: int, convergence: float, entries: list[list[Any]], split: SplitName
) -> Json:
    """Train A once, then B under each guard from there: the same A, the same B, the same mini-batches.

    A is trained to a share of its best accuracy, 1 to the end of its budget. Entries are the name and the strength of
    each guard. A is measured on a split while B is trained, and B in the end.
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


def _watched(setup: TwoModelSetup, split: SplitName) -> Split:
    return setup.choosing if split == "validation" else setup.data.test


def trial_seed(seed: int, phase: Literal["tuning", "reported"], number: int) -> int:
    """The seed of a trial: those that strengths are chosen on are apart from those that are reported."""
    return derive_seed(seed, phase, number)


def trials_of(experiment: Experiment, preset: ForgettingPreset, setup: TwoModelSetup, figure: str) -> Trials:
    """The run of a figure, gone on with if it is there; one that answered another question is replaced."""
    workspace = experiment.workspace
    return Trials(workspace, experiment.folder / figure, preset.to_json(setup, workspace.seed), setup, KIND)
