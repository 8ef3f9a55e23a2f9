"""Figure 3: how much a supernet's training changes the accuracy and the rank of its children over an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.disturbance import performance_change, rank_consistency
from ramet.ranking.instance import train_instance
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator
from ramet_papers.disturbance_immune.judges import Changes, I2Figures, judge_i2
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset
from ramet_papers.disturbance_immune.recorded import Trainings
from ramet_papers.disturbance_immune.sequences import PILOT
from ramet_papers.workspace import Outcome, Workspace

MEASURES = ("change", "size of change", "rank consistency", "accuracy")


class Supernets:
    """The supernets of Figure 3, one child a mini-batch, each guarded in some way: one run directory."""

    def __init__(self, workspace: Workspace, preset: DisturbancePreset) -> None:
        self.preset, self.workspace = preset, workspace
        setup = preset.setup(workspace, preset.space_options, preset.supernet_settings)
        name = f"disturbance-immune-{preset.name}/figure-3"
        self.trainings = Trainings(workspace, name, setup, {"seed": workspace.seed}, preset.keeps_checkpoints)

    def task(self, guard: str, seed: int | str) -> WorkItem:
        """One supernet, all of its children scored after every epoch."""
        key = f"{guard.replace(':', '-')}/seed-{seed}"
        arguments: Json = {
            "name": key,
            "trained": None,
            "scored": list(range(len(self.trainings.setup.space))),
            "order": "uniform",  # section 4.2: architectures are sampled
            "guard": guard,
            "num_shared_cells": None,
            **{
                f"{role}_seed": derive_seed(self.workspace.seed, "figure-3", role, seed)
                for role in ("weights", "order", "batches")
            },
            "last_epochs": self.preset.supernet_settings.epochs,
            "last_steps": 1,
        }
        return WorkItem(key, train_instance, arguments)

    def chosen(self) -> list[str]:
        """Each guard at the strength whose children are best at the end, on a seed apart.

        By accuracy, and not by stability: a guard that freezes the weights would be the most stable of all.
        """
        texts = {guard: [f"{guard}:{value:g}" for value in values] for guard, values in self.preset.strengths.items()}
        tasks = {text: self.task(text, PILOT) for row in texts.values() for text in row}
        found = self.trainings.finish(list(tasks.values()))
        return [
            max(row, key=lambda text: float(np.mean(found[tasks[text].key]["epochs"][-1]))) for row in texts.values()
        ]

    def over_seeds(self, guards: list[str]) -> dict[str, Floats]:
        """The accuracies of all supernets, shape [seeds, epochs, children] for each guard."""
        rows = {guard: [self.task(guard, seed) for seed in range(self.preset.seeds)] for guard in guards}
        found = self.trainings.finish([task for row in rows.values() for task in row])
        return {guard: np.asarray([found[task.key]["epochs"] for task in row]) for guard, row in rows.items()}


def figure_3(workspace: Workspace, preset_name: str) -> Outcome:
    """Performance change and rank correlation over an interval of epochs, all 64 children, each guard."""
    preset = PRESETS[preset_name]
    supernets = Supernets(workspace, preset)
    guards = ["none", *supernets.chosen()]
    accuracies = supernets.over_seeds(guards)
    generator = numpy_generator(workspace.seed, "figure-3")
    measured = {guard: measure(values, preset.interval) for guard, values in accuracies.items()}
    gains = {
        guard: {
            name: mean_interval(measured[guard][name] - measured["none"][name], generator=generator)
            for name in MEASURES
        }
        for guard in guards[1:]
    }
    return Outcome(
        "Disturbance-immune weight sharing, Figure 3",
        [_table(measured, gains), _over_time(accuracies, preset.interval)],
        [judge_i2(_figures_2(supernets, measured, guards[1]))],
        [
            f"{preset.note} Interval {preset.interval} of {preset.supernet_settings.epochs} epochs (the paper: 13 of "
            "240), second half of the training. A frozen supernet would change nothing: read each row with its "
            "accuracy. Intervals are over seeds, paired: all guards have the same weights, orders and mini-batches."
        ],
    ).kept(workspace.results)


def measure(accuracies: Floats, interval: int) -> dict[str, Floats]:
    """The measures of Figure 3 for each seed: means over the starts in the second half of the training.

    Args:
        accuracies: shape [seeds, epochs, children].
        interval: epochs between two evaluations.
    """
    start = max(0, min(accuracies.shape[1] // 2, accuracies.shape[1] - interval - 1))
    late = accuracies[:, start:]
    return {
        "change": np.array([performance_change(a, interval).mean() for a in late]),
        "size of change": np.array([performance_change(a, interval, absolute=True).mean() for a in late]),
        "rank consistency": np.array([rank_consistency(a, interval).mean() for a in late]),
        "accuracy": accuracies[:, -1].mean(axis=1),
    }


def _table(measured: dict[str, dict[str, Floats]], gains: dict[str, dict[str, Estimate]]) -> Table:
    rows: list[list[Any]] = []
    for guard, values in measured.items():
        row: list[Any] = [guard]
        for name in MEASURES:
            row += [float(values[name].mean()), gains[guard][name] if guard in gains else None]
        rows.append(row)
    columns: list[Column | str] = ["guard", Column("change, signed", percent), Column("against none", percent)]
    columns += [Column("change, absolute", percent, best="lowest"), Column("against none ", percent)]
    columns += [Column("rank consistency", best="highest"), "against none  "]
    columns += [Column("accuracy at the end", percent, best="highest"), Column("against none   ", percent)]
    return Table(columns, rows, title="Figure 3: change over an interval, 64 architectures")


def _over_time(accuracies: dict[str, Floats], interval: int) -> Table:
    """The curves of Figure 3, at a few starts."""
    num_starts = next(iter(accuracies.values())).shape[1] - interval
    starts = sorted({round(place * (num_starts - 1) / 5) for place in range(6)})
    rows: list[list[Any]] = []
    for start in starts:
        row: list[Any] = [start + 1]
        for values in accuracies.values():
            row.append(float(np.mean([performance_change(a, interval, absolute=True)[start] for a in values])))
            row.append(float(np.mean([rank_consistency(a, interval)[start] for a in values])))
        rows.append(row)
    columns: list[Column | str] = ["from epoch"]
    for guard in accuracies:
        columns += [Column(f"{guard}: change", percent), f"{guard}: KTau"]
    return Table(columns, rows, title=f"Figure 3 over the training: absolute change, KTau, {interval} epochs later")


def _figures_2(supernets: Supernets, measured: dict[str, dict[str, Floats]], guard: str) -> I2Figures:
    """Projection beside no guard. A control of equal own gain is not trained here."""
    preset, setup = supernets.preset, supernets.trainings.setup
    plain, guarded = measured["none"], measured[guard]
    return I2Figures(
        command=f"ramet reproduce disturbance-immune/figure-3 --preset {preset.name}",
        setting=f"{preset.note} {guard}; accuracy {plain['accuracy'].mean():.1%} without, "
        f"{guarded['accuracy'].mean():.1%} with it.",
        plain=Changes(plain["size of change"], plain["rank consistency"]),
        guarded=Changes(guarded["size of change"], guarded["rank consistency"]),
        control=None,
        own_gains=None,
        architectures=len(setup.space),
        images=len(setup.data.validation),
        batch_norm="running",  # what ``train_instance`` scores children with
    )
