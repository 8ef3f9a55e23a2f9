"""Pairs of architectures that share some of their layers: which there are, and their results."""

from __future__ import annotations

from ramet.execution import WorkItem
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.disturbance_immune.presets import DisturbancePreset
from ramet_papers.disturbance_immune.recorded import Trainings
from ramet_papers.disturbance_immune.sequence import sampled_archs, train_pair
from ramet_papers.disturbance_immune.sequences import PILOT
from ramet_papers.workspace import Workspace


class Pairs:
    """Pairs of architectures that share the stem and 0, 1, ... all cells: one run directory."""

    def __init__(self, workspace: Workspace, preset: DisturbancePreset) -> None:
        self.preset, self.workspace = preset, workspace
        setup = preset.setup(workspace, preset.pair_space_options, preset.pair_settings)
        name = f"disturbance-immune-{preset.name}/shared-layers"
        self.trainings = Trainings(workspace, name, setup, {"seed": workspace.seed}, preset.keeps_checkpoints)
        self.num_cells = int(preset.pair_space_options["num_cells"])

    def task(self, num_shared: int, seed: int | str, pair: int, lr: float) -> WorkItem:
        """One pair: two architectures that differ in the first operation of their cells, and in no other.

        So nearly all layers of a shared cell are shared. The first operation stands nearest to the cell's input.
        """
        own_seed = derive_seed(self.workspace.seed, "pair", seed, pair)
        space = self.trainings.setup.space
        first = sampled_archs(space, 1, own_seed)[0]
        second = ((first[0] + 1) % space.num_options[0], *first[1:])
        key = f"shared-{num_shared}/lr-{lr:g}/seed-{seed}/pair-{pair}"
        arguments: Json = {
            "name": key,
            "first": list(first),
            "second": list(second),
            "num_shared_cells": num_shared,
            "seed": own_seed,
            "lr": lr,
        }
        return WorkItem(key, train_pair, arguments)

    def pilots(self) -> dict[float, WorkItem]:
        """A training for each learning rate, on a seed apart and with everything shared."""
        return {lr: self.task(self.num_cells, PILOT, 0, lr) for lr in self.preset.learning_rates}

    def tasks(self, lr: float) -> list[list[WorkItem]]:
        """For each number of shared cells all pairs of all seeds, in the same order."""
        every = [(seed, pair) for seed in range(self.preset.seeds) for pair in range(self.preset.num_pairs)]
        return [[self.task(k, seed, pair, lr) for seed, pair in every] for k in range(self.num_cells + 1)]

    def finish(self) -> tuple[list[list[Json]], float]:
        """All results, and the learning rate that was chosen on validation data."""
        pilots = self.pilots()
        lr = _best(pilots, self.trainings.finish(list(pilots.values())))
        rows = self.tasks(lr)
        found = self.trainings.finish([task for row in rows for task in row])
        return [[found[task.key] for task in row] for row in rows], lr

    def known(self) -> list[list[Json]] | None:
        """All results if they are recorded already, else none."""
        pilots = self.pilots()
        found = self.trainings.known(list(pilots.values()))
        if found is None:
            return None
        rows = self.tasks(_best(pilots, found))
        results = self.trainings.known([task for row in rows for task in row])
        return None if results is None else [[results[task.key] for task in row] for row in rows]


def _best(pilots: dict[float, WorkItem], found: dict[str, Json]) -> float:
    return max(pilots, key=lambda lr: found[pilots[lr].key]["validation"])
