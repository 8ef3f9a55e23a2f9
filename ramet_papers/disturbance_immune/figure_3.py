"""Figure 3: how much a supernet's training changes the accuracy and the rank of its children over an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.disturbance import performance_change, rank_consistency
from ramet.ranking.instance import train_instance
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.disturbance_immune.judges import Changes, I2Figures, judge_i2
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset, guard_text
from ramet_papers.disturbance_immune.sequences import PILOT
from ramet_papers.experiment import Experiment, Outcome, values

MEASURES = ("change", "size of change", "rank consistency", "accuracy")


class Supernets:
    """The supernets of Figure 3, one child a mini-batch, each guarded in some way: one run directory."""

    def __init__(self, experiment: Experiment, preset: DisturbancePreset) -> None:
        self.preset, self.seed = preset, experiment.workspace.seed
        self.trials = preset.trials(experiment, "figure-3", preset.space_options, preset.supernet_settings)

    def task(self, guard: str, seed: int | str) -> WorkItem:
        """One supernet, all of its children scored after every epoch."""
        key = f"{guard.replace(':', '-').replace('=', '-')}/seed-{seed}"
        arguments: Json = {
            "name": key,
            "trained": None,
            "scored": list(range(len(self.trials.setup.space))),
            "order": "uniform",  # section 4.2: architectures are sampled
            "guard": guard,
            "num_shared_cells": None,
            **{
                f"{role}_seed": derive_seed(self.seed, "figure-3", role, seed)
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
        texts = {guard: [guard_text(guard, value) for value in tried] for guard, tried in self.preset.strengths.items()}
        found = self.trials.finish({text: [self.task(text, PILOT)] for row in texts.values() for text in row})
        return [max(row, key=lambda text: float(np.mean(found[text][0]["epochs"][-1]))) for row in texts.values()]

    def over_seeds(self, guards: list[str]) -> dict[str, Floats]:
        """The accuracies of all supernets, shape [seeds, epochs, children] for each guard."""
        rows = {guard: [self.task(guard, seed) for seed in range(self.preset.seeds)] for guard in guards}
        return {guard: values(results, "epochs") for guard, results in self.trials.finish(rows).items()}


def figure_3(experiment: Experiment) -> Outcome:
    """Performance change and rank correlation over an interval of epochs, all 64 children, each guard."""
    preset = PRESETS[experiment.preset_name]
    supernets = Supernets(experiment, preset)
    guards = ["none", *supernets.chosen()]
    accuracies = supernets.over_seeds(guards)
    measured = {guard: measure(found, preset.interval) for guard, found in accuracies.items()}
    gains = {
        guard: {name: experiment.mean(measured[guard][name] - measured["none"][name]) for name in MEASURES}
        for guard in guards[1:]
    }
    plain, guarded, setup = measured["none"], measured[guards[1]], supernets.trials.setup
    figures = I2Figures(
        command=experiment.command,
        setting=f"{preset.note} {guards[1]}; accuracy {plain['accuracy'].mean():.1%} without, "
        f"{guarded['accuracy'].mean():.1%} with it.",
        plain=Changes(plain["size of change"], plain["rank consistency"]),
        guarded=Changes(guarded["size of change"], guarded["rank consistency"]),
        control=None,  # of equal own gain is not trained here
        own_gains=None,
        architectures=len(setup.space),
        images=len(setup.data.validation),
        batch_norm="running",  # what ``train_instance`` scores children with
    )
    notes = [
        f"{preset.note} Interval {preset.interval} of {preset.supernet_settings.epochs} epochs (the paper: 13 of "
        "240), second half of the training. A frozen supernet would change nothing: read each row with its "
        "accuracy. Intervals are over seeds, paired: all guards have the same weights, orders and mini-batches."
    ]
    tables = [_table(measured, gains), _over_time(accuracies, preset.interval)]
    return Outcome("Disturbance-immune weight sharing, Figure 3", tables, [judge_i2(figures)], notes)


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
    for guard, found in measured.items():
        row: list[Any] = [guard]
        for name in MEASURES:
            row += [float(found[name].mean()), gains[guard][name] if guard in gains else None]
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
        for found in accuracies.values():
            row.append(float(np.mean([performance_change(a, interval, absolute=True)[start] for a in found])))
            row.append(float(np.mean([rank_consistency(a, interval)[start] for a in found])))
        rows.append(row)
    columns: list[Column | str] = ["from epoch"]
    for guard in accuracies:
        columns += [Column(f"{guard}: change", percent), f"{guard}: KTau"]
    return Table(columns, rows, title=f"Figure 3 over the training: absolute change, KTau, {interval} epochs later")
