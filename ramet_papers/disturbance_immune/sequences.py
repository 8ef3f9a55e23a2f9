"""The architectures that are trained one after the other: which there are, in a row and in pairs, and their results."""

from __future__ import annotations

from dataclasses import dataclass

from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.disturbance_immune.presets import DisturbancePreset
from ramet_papers.disturbance_immune.sequence import sampled_archs, train_pair, train_sequence
from ramet_papers.experiment import Experiment, best_of, values

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
    """The sequences over which lambda is varied: one run directory."""

    def __init__(self, experiment: Experiment, preset: DisturbancePreset) -> None:
        self.preset, self.seed = preset, experiment.workspace.seed
        subject = (preset.space_options, preset.sequence_settings)
        self.trials = preset.trials(experiment, "sequences", *subject, architectures=preset.num_architectures)

    def task(self, guarding: Guarding, seed: int | str, lr: float) -> WorkItem:
        """One sequence."""
        words = guarding.name.replace(",", "").replace(" ", "-")
        key = f"{words}/lr-{lr:g}/seed-{seed}"
        arguments: Json = {
            "name": key,
            "num_archs": self.preset.num_architectures,
            "seed": derive_seed(self.seed, "sequence", seed),
            "inputs": guarding.inputs,
            "regularisation": guarding.regularisation,
            "lr": lr,
        }
        return WorkItem(key, train_sequence, arguments)

    def pilots(self) -> dict[float, list[WorkItem]]:
        """An unguarded sequence for each learning rate; the one whose architectures are best at the end is taken."""
        return {lr: [self.task(Guarding(), PILOT, lr)] for lr in self.preset.learning_rates}

    def tasks(self, guardings: list[Guarding], lr: float) -> dict[Guarding, list[WorkItem]]:
        """The sequences of all seeds."""
        return {g: [self.task(g, seed, lr) for seed in range(self.preset.seeds)] for g in guardings}

    def over_lambdas(self, only_known: bool = False) -> tuple[dict[Guarding, list[Json]], float] | None:
        """The curve of lambda and its learning rate; none if only what is known may be read, and it is not known."""
        look = self.trials.known if only_known else self.trials.finish
        if (pilots := look(self.pilots())) is None:
            return None
        lr = best_of(pilots)
        guardings = [Guarding(), *(Guarding(inputs, v) for inputs, vs in self.preset.lambdas.items() for v in vs)]
        found = look(self.tasks(guardings, lr))
        return None if found is None else (found, lr)


class Rows:
    """The rows of Figure 1b: unguarded sequences whose architectures are trained to the end; one run directory."""

    def __init__(self, experiment: Experiment, preset: DisturbancePreset) -> None:
        self.preset, self.seed = preset, experiment.workspace.seed
        subject = (preset.row_space_options, preset.row_settings)
        self.trials = preset.trials(experiment, "figure-1b", *subject, architectures=preset.num_architectures)

    def over_seeds(self) -> list[Json]:
        """What each row gives."""
        return self.trials.in_order([self._task(seed) for seed in range(self.preset.row_seeds)], "training in a row")

    def _task(self, seed: int) -> WorkItem:
        key = f"seed-{seed}"
        arguments: Json = {
            "name": key,
            "num_archs": self.preset.num_architectures,
            "seed": derive_seed(self.seed, "sequence", seed),
            "inputs": None,
            "regularisation": 1.0,
            "lr": self.preset.row_settings.learning_rate,
        }
        return WorkItem(key, train_sequence, arguments)


class Pairs:
    """Pairs of architectures that share the stem and 0, 1, ... all cells: one run directory."""

    def __init__(self, experiment: Experiment, preset: DisturbancePreset) -> None:
        self.preset, self.seed = preset, experiment.workspace.seed
        self.trials = preset.trials(experiment, "shared-layers", preset.pair_space_options, preset.pair_settings)
        self.num_cells = int(preset.pair_space_options["num_cells"])

    def task(self, num_shared: int, seed: int | str, pair: int, lr: float) -> WorkItem:
        """One pair: two architectures that differ in the first operation of their cells, and in no other.

        So nearly all layers of a shared cell are shared. The first operation stands nearest to the cell's input.
        """
        own_seed = derive_seed(self.seed, "pair", seed, pair)
        space = self.trials.setup.space
        first = sampled_archs(space, 1, own_seed)[0]
        second = ((first[0] + 1) % space.num_options[0], *first[1:])
        key = f"shared-{num_shared}/lr-{lr:g}/seed-{seed}/pair-{pair}"
        archs: Json = {"first": list(first), "second": list(second), "num_shared_cells": num_shared}
        return WorkItem(key, train_pair, {"name": key, "seed": own_seed, "lr": lr, **archs})

    def over_cells(self, only_known: bool = False) -> tuple[list[list[Json]], float] | None:
        """For each number of shared cells all pairs of all seeds, and the learning rate that validation data chose.

        It is chosen on a seed apart, with everything shared. None if only what is known may be read, and it is not
        known.
        """
        look = self.trials.known if only_known else self.trials.finish
        pilots = look({lr: [self.task(self.num_cells, PILOT, 0, lr)] for lr in self.preset.learning_rates})
        if pilots is None:
            return None
        lr = best_of(pilots)
        every = [(seed, pair) for seed in range(self.preset.seeds) for pair in range(self.preset.num_pairs)]
        found = look({k: [self.task(k, *own, lr) for own in every] for k in range(self.num_cells + 1)})
        return None if found is None else (list(found.values()), lr)


def final_accuracies(results: list[Json]) -> Floats:
    """The mean accuracy of all architectures at the end of each sequence, batch norm re-estimated; shape [seeds]."""
    means: Floats = values(results, "reestimated")[:, :, -1].mean(axis=1)
    return means
