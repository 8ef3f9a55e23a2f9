"""Figure 3: how far accuracies and ranks of all children change over an interval of epochs, with and without guards."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.disturbance import performance_change, rank_consistency
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import percent, significant
from ramet_papers.disturbance_immune.arms import CONTROL, JUDGED, PLAIN, Bench, Found
from ramet_papers.disturbance_immune.judges import Changes, I2Figures, OwnGains, judge_i2
from ramet_papers.disturbance_immune.presets import PRESETS
from ramet_papers.experiment import Experiment, Outcome, Row, tabled


def figure_3(experiment: Experiment) -> Outcome:
    """Performance change and rank consistency over an interval of epochs, all children, each guard; claim I2."""
    preset = PRESETS[experiment.preset_name]
    bench = Bench(experiment, preset)
    found = bench.compared()
    changes = {name: measure(one.epochs, preset.interval) for name, one in found.items()}
    judged, control = found[JUDGED], found[CONTROL]
    figures = I2Figures(
        command=experiment.command,
        setting=f"{bench.setting.note} {preset.bench_note} {judged.arm.guard}; accuracy "
        f"{found[PLAIN].last.mean():.1%} unguarded, {control.last.mean():.1%} in the control, whose learning rate is "
        f"{control.arm.factor:g} of it, and {judged.last.mean():.1%} with projection. {_others(changes)}",
        plain=changes[PLAIN],
        guarded=changes[JUDGED],
        control=changes[CONTROL],
        own_gains=OwnGains(judged.own_gain, control.own_gain),
        architectures=judged.last.shape[1],
        images=bench.num_changing,
        batch_norm="batch",
    )
    notes = [
        f"{bench.setting.note} {preset.bench_note} Interval {preset.interval} of {preset.bench_epochs} epochs (the "
        "paper: 13 of 240). A frozen supernet would change nothing: read each row with its accuracy and its own gain, "
        "by how much a step lowers the loss of its own child. Intervals are over seeds, paired: all arms have the same "
        "weights, orders and mini-batches. Guards with turns are to be read against no guard with the same turns."
    ]
    tables = [_table(found, changes), _over_time(found, preset.interval)]
    return Outcome("Disturbance-immune weight sharing, Figure 3", tables, [judge_i2(figures)], notes)


def measure(accuracies: Floats, interval: int) -> Changes:
    """The measures of Figure 3 for each seed: means over all starts of an interval.

    Args:
        accuracies: shape [seeds, epochs, children].
        interval: epochs between two evaluations.
    """
    return Changes(
        size=np.array([performance_change(one, interval, absolute=True).mean() for one in accuracies]),
        consistency=np.array([rank_consistency(one, interval).mean() for one in accuracies]),
    )


def _others(changes: dict[str, Changes]) -> str:
    """The guards that are not judged, against the control."""
    texts = []
    for name, one in changes.items():
        if name not in (PLAIN, CONTROL, JUDGED):
            texts.append(f"{name} {one.size.mean():.1%} and {one.consistency.mean():.2f}")
    return f"Change and KTau of the others: {'; '.join(texts)}."


def _table(found: dict[str, Found], changes: dict[str, Changes]) -> Table:
    base, rows = changes[CONTROL], list[Row]()
    for name, one in found.items():
        against = {"size": changes[name].size - base.size, "tau": changes[name].consistency - base.consistency}
        gains = {key: None if name == CONTROL else seed_interval(value) for key, value in against.items()}
        rows.append(
            {
                "arm": name,
                "guard": one.arm.guard,
                Column("own gain", significant): float(one.own_gain.mean()),
                Column("change, absolute", percent, best="lowest"): float(changes[name].size.mean()),
                Column("against the control", percent): gains["size"],
                Column("rank consistency", best="highest"): float(changes[name].consistency.mean()),
                "against the control ": gains["tau"],
                Column("accuracy at the end", percent, best="highest"): float(one.last.mean()),
                Column("open directions", percent): one.open_share,
            }
        )
    return tabled(rows, "Figure 3: change over an interval, all architectures")


def _over_time(found: dict[str, Found], interval: int) -> Table:
    """The curves of Figure 3, at a few starts."""
    num_starts = next(iter(found.values())).epochs.shape[1] - interval
    starts = sorted({round(place * (num_starts - 1) / 5) for place in range(6)})
    rows: list[list[Any]] = []
    for start in starts:
        row: list[Any] = [start + 1]
        for one in found.values():
            row.append(float(np.mean([performance_change(a, interval, absolute=True)[start] for a in one.epochs])))
            row.append(float(np.mean([rank_consistency(a, interval)[start] for a in one.epochs])))
        rows.append(row)
    columns: list[Column | str] = ["from scored epoch"]
    for name in found:
        columns += [Column(f"{name}: change", percent), f"{name}: KTau"]
    return Table(columns, rows, title=f"Figure 3 over the training: absolute change, KTau, {interval} epoch(s) later")
