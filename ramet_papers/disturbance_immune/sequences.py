"""The sequences of architectures that Figure 1b and the curve of lambda look at: which there are, and their results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.disturbance_immune.presets import DisturbancePreset
from ramet_papers.disturbance_immune.recorded import Trainings
from ramet_papers.disturbance_immune.sequence import train_sequence
from ramet_papers.workspace import Workspace

WAYS = {"mean": "projection, mean inputs", "all": "projection, all inputs"}
"""Which inputs are projected away, and how a table calls that."""

PILOT = "pilot"
"""The seed apart, on which learning rates and strengths are chosen."""


@dataclass(frozen=True)
class Guarding:
    """How a sequence is guarded: no inputs, no guard."""

    inputs: str | None = None
    regularisation: float = 1.0

    @property
    def name(self) -> str:
        """In words, for a table and for a task's key."""
        return "none" if self.inputs is None else f"{WAYS[self.inputs]}, lambda {self.regularisation:g}"


class Sequences:
    """The sequences of a preset: one run directory, from which both figures read what they have in common."""

    def __init__(self, workspace: Workspace, preset: DisturbancePreset) -> None:
        self.preset, self.workspace = preset, workspace
        setup = preset.setup(workspace, preset.space_options, preset.sequence_settings)
        options = {"architectures": preset.num_architectures, "seed": workspace.seed}
        name = f"disturbance-immune-{preset.name}/sequences"
        self.trainings = Trainings(workspace, name, setup, options, preset.keeps_checkpoints)

    def task(self, guarding: Guarding, seed: int | str, lr: float) -> WorkItem:
        """One sequence."""
        words = guarding.name.replace(",", "").replace(" ", "-")
        key = f"{words}/lr-{lr:g}/seed-{seed}"
        arguments: Json = {
            "name": key,
            "num_archs": self.preset.num_architectures,
            "seed": derive_seed(self.workspace.seed, "sequence", seed),
            "inputs": guarding.inputs,
            "regularisation": guarding.regularisation,
            "lr": lr,
        }
        return WorkItem(key, train_sequence, arguments)

    def learning_rate(self) -> float:
        """The rate whose ten architectures are best at the end, unguarded, on the validation data of a seed apart."""
        tasks = {lr: self.task(Guarding(), PILOT, lr) for lr in self.preset.learning_rates}
        found = self.trainings.finish(list(tasks.values()))
        return max(tasks, key=lambda lr: found[tasks[lr].key]["validation"])

    def chosen(self, inputs: str, lr: float) -> Guarding:
        """The lambda whose ten architectures are best at the end, on the validation data of a seed apart."""
        tasks = {value: self.task(Guarding(inputs, value), PILOT, lr) for value in self.preset.lambdas[inputs]}
        found = self.trainings.finish(list(tasks.values()))
        return Guarding(inputs, max(tasks, key=lambda value: found[tasks[value].key]["validation"]))

    def over_seeds(self, guardings: list[Guarding], lr: float) -> dict[Guarding, list[Json]]:
        """The sequences of all seeds."""
        tasks = {g: [self.task(g, seed, lr) for seed in range(self.preset.seeds)] for g in guardings}
        found = self.trainings.finish([task for row in tasks.values() for task in row])
        return {g: [found[task.key] for task in row] for g, row in tasks.items()}

    def lambda_tasks(self, lr: float) -> dict[Guarding, list[WorkItem]]:
        """What the curve of lambda needs."""
        guardings = [Guarding(), *(Guarding(inputs, v) for inputs, vs in self.preset.lambdas.items() for v in vs)]
        return {g: [self.task(g, seed, lr) for seed in range(self.preset.seeds)] for g in guardings}

    def known_curve(self) -> dict[Guarding, Floats] | None:
        """The curve of lambda if it was measured before, else none; see ``final_accuracies``."""
        pilots = {lr: self.task(Guarding(), PILOT, lr) for lr in self.preset.learning_rates}
        found = self.trainings.known(list(pilots.values()))
        if found is None:
            return None
        rows = self.lambda_tasks(max(pilots, key=lambda lr: found[pilots[lr].key]["validation"]))
        results = self.trainings.known([task for row in rows.values() for task in row])
        if results is None:
            return None
        return {g: final_accuracies([results[task.key] for task in row]) for g, row in rows.items()}


def matrices(results: list[Json], field: str) -> Floats:
    """A field of all seeds, shape [seeds, n, n]."""
    return np.asarray([result[field] for result in results], dtype=float)


def final_accuracies(results: list[Json]) -> Floats:
    """The mean accuracy of all architectures at the end of each sequence, batch norm re-estimated; shape [seeds]."""
    means: Floats = matrices(results, "reestimated")[:, :, -1].mean(axis=1)
    return means
