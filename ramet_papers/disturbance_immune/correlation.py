"""What each guard does to a supernet's stability and to its correlation with the truth (section 5.3, GT-Tau)."""

from __future__ import annotations

from ramet.ranking.diagnosis import child_costs
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats, rank_correlation, rank_correlations, stability
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet_papers.disturbance_immune.arms import CONTROL, JUDGED, PLAIN, TURNS, Bench, Found
from ramet_papers.disturbance_immune.judges import I3Figures, OwnGains, judge_i3
from ramet_papers.disturbance_immune.presets import PRESETS
from ramet_papers.experiment import Experiment, Outcome, Row, tabled

PAPER = {PLAIN: 0.16, JUDGED: 0.48}


def correlation(experiment: Experiment) -> Outcome:
    """One table: what each guard changes, against the unguarded control, with paired intervals; claim I3."""
    preset = PRESETS[experiment.preset_name]
    bench = Bench(experiment, preset)
    found, truth = bench.compared(), bench.truth
    taus = {name: rank_correlations(one.last, truth.mean(axis=0)[None])[:, 0] for name, one in found.items()}
    averaged = {
        name: rank_correlations(one.epochs.mean(axis=1), truth.mean(axis=0)[None])[:, 0] for name, one in found.items()
    }
    gains = {name: seed_interval(taus[name] - taus[baseline_of(name)]) for name in found if name != CONTROL}
    judged, control = found[JUDGED], found[CONTROL]
    others = "; ".join(
        f"{name}: {taus[name].mean():.2f}, {gain.text()}" for name, gain in gains.items() if name not in (PLAIN, JUDGED)
    )
    figures = I3Figures(
        command=experiment.command,
        setting=f"{bench.setting.note} {preset.bench_note} {judged.arm.guard}; unguarded {taus[PLAIN].mean():.2f}. "
        f"GT-Tau and gain of the others: {others}.",
        plain=taus[PLAIN],
        guarded=taus[JUDGED],
        control=taus[CONTROL],
        own_gains=OwnGains(judged.own_gain, control.own_gain),
    )
    parameters, _ = child_costs(bench.trials.setup, range(truth.shape[1]))
    trivial = rank_correlation(parameters, truth.mean(axis=0))
    notes = [
        f"{bench.setting.note} {preset.bench_note} {len(judged.last)} supernets an arm, of the same weights, orders "
        "and mini-batches; intervals are over supernets, paired with the unguarded control of equal own gain (for "
        "plasticity and its turns, with no guard at the same turns). Strengths are the most accurate ones on a seed "
        "apart; the truth has no say in them.",
        f"The parameter count alone has {trivial:.2f} with the truth, the mean of {len(truth)} seeds.",
    ]
    title = "Disturbance-immune weight sharing, correlation with the truth"
    return Outcome(title, [_table(found, taus, averaged, gains)], [judge_i3(figures)], notes)


def baseline_of(name: str) -> str:
    """What an arm is compared with: the control, or where children have longer turns, no guard with the same ones."""
    return TURNS if name.startswith("plasticity") else CONTROL


def _table(
    found: dict[str, Found], taus: dict[str, Floats], averaged: dict[str, Floats], gains: dict[str, Estimate]
) -> Table:
    rows: list[Row] = []
    for name, one in found.items():
        rows.append(
            {
                "arm": name,
                "guard": one.arm.guard,
                Column("accuracy", percent): float(one.last.mean()),
                "paper: GT-Tau": PAPER.get(name),
                "ours: GT-Tau": float(taus[name].mean()),
                "gain": gains.get(name),
                "GT-Tau, mean of epochs": float(averaged[name].mean()),
                "S-Tau": stability(one.last).mean,
            }
        )
    return tabled(rows, "Guards: correlation with the truth, and agreement of supernets")
