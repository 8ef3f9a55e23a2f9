"""What each guard does to a supernet's stability and to its correlation with the truth (section 5.3, GT-Tau)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.ranking.diagnosis import instance_key
from ramet.ranking.disturbance import performance_change, rank_consistency, stability_gain
from ramet.ranking.intervals import correlation_gain_interval, mean_interval
from ramet.ranking.metrics import Floats, rank_correlations, stability
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.runs import read_records
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.deeper_insights import presets as deeper
from ramet_papers.disturbance_immune.judges import I3Figures, judge_i3
from ramet_papers.disturbance_immune.presets import PRESETS, DisturbancePreset, guard_text
from ramet_papers.experiment import Experiment, Outcome, Row, tabled, values
from ramet_papers.workspace import Workspace


@dataclass(frozen=True)
class Guarded:
    """What was measured of the supernets under one guard."""

    last: Floats  # scores after the last mini-batch, shape [instances, children]
    epochs: Floats  # scores after each of the last epochs, shape [instances, epochs, children]
    averaged: Floats  # their mean over these epochs, shape [instances, children]
    taus: Floats  # correlation of ``last`` with the truth, shape [instances]

    @property
    def consistency(self) -> Floats:
        """Kendall's tau between the rankings of two epochs in a row, mean over the last epochs; [instances]."""
        return np.array([rank_consistency(epochs, 1).mean() for epochs in self.epochs])

    @property
    def change(self) -> Floats:
        """The absolute change of accuracy from one epoch to the next, mean over the last epochs; [instances]."""
        return np.array([performance_change(epochs, 1, absolute=True).mean() for epochs in self.epochs])


def correlation(experiment: Experiment) -> Outcome:
    """One table: what each guard changes, against no guard, with paired intervals."""
    workspace, name = experiment.workspace, experiment.preset_name
    preset, setting = PRESETS[name], deeper.PRESETS[name]
    guards = ["none", *(choose_strength(workspace, preset, guard) for guard in preset.strengths)]
    results = {guard: workspace.diagnose(_run_name(preset, guard), _job(workspace, setting, guard)) for guard in guards}
    plain = results["none"]
    truth = np.asarray(plain["truth"]["mean"])
    found = {guard: _guarded(workspace, preset, setting, guard, truth) for guard in guards}
    gains = {guard: _gains(found[guard], found["none"], truth, experiment.generator) for guard in guards[1:]}
    parameters = plain["correlation"]["parameters"]["tau"]["value"]
    reliability = plain["truth"]["reliability_of_mean"]
    known = "not known" if reliability is None else f"{reliability:.2f}"
    notes = [
        f"{setting.note} {setting.instances} supernets a guard, of the same weights, orders and mini-batches. "
        "Intervals of correlations and of S-Tau resample children, those of the last two columns the supernets; all "
        "are paired with no guard. Strengths are the most accurate ones of short trainings on a seed apart.",
        f"The parameter count alone has {parameters:.2f} with the truth, whose reliability is {known}.",
        *(_verdict(guard, gains[guard]) for guard in gains),
    ]
    judged, *rest = guards[1:]
    others = "; ".join(f"{guard}: {gains[guard]['truth'].text()}" for guard in rest)
    figures = I3Figures(
        command=experiment.command,
        setting=f"{setting.note} {judged}: {gains[judged]['truth'].text()} over children. Gains of the other "
        f"guards: {others}.",
        plain=found["none"].taus,
        guarded=found[judged].taus,
        control=None,  # of equal own gain is not trained here
        own_gains=None,
    )
    title = "Disturbance-immune weight sharing, correlation with the truth"
    return Outcome(title, [_table(found, gains)], [judge_i3(figures)], notes)


def choose_strength(workspace: Workspace, preset: DisturbancePreset, guard: str) -> str:
    """The guard at the strength whose children are most accurate on validation data, after a short training.

    The truth has no say in it: a user has none. The seed is one apart, for weights, orders and mini-batches.
    """
    setting = deeper.PRESETS[preset.name]
    pilot: Json = {"instances": 1, "truth": "none", "supernet_epochs": preset.pilot_epochs}
    pilot["seed"] = derive_seed(workspace.seed, "pilot")
    accuracies = {}
    for value in preset.strengths[guard]:
        text = guard_text(guard, value)
        job = _job(workspace, setting, text, **pilot)
        accuracies[text] = workspace.diagnose(f"{_run_name(preset, text)}-pilot", job)["accuracy"]["mean"]
    return max(accuracies, key=lambda text: accuracies[text])


def _job(workspace: Workspace, setting: deeper.SharingPreset, guard: str, **plan: Any) -> Any:
    epochs = min(setting.last_epochs, plan.get("supernet_epochs", setting.supernet_epochs))
    return setting.job(workspace, order="shuffled", guard=guard, **{"last_epochs": epochs, **plan})


def _run_name(preset: DisturbancePreset, guard: str) -> str:
    return f"disturbance-immune-{preset.name}/correlation-{guard.replace(':', '-').replace('=', '-')}"


def _guarded(
    workspace: Workspace, preset: DisturbancePreset, setting: deeper.SharingPreset, guard: str, truth: Floats
) -> Guarded:
    run = workspace.run_of(_run_name(preset, guard), _job(workspace, setting, guard))
    records = {record["key"]: record for record in read_records(run)}
    instances = [records[instance_key("", instance, 0)] for instance in range(setting.instances)]
    last = np.array([instance["steps"][-1] for instance in instances])
    epochs = values(instances, "epochs")
    return Guarded(last, epochs, epochs.mean(axis=1), rank_correlations(last, truth[None])[:, 0])


def _gains(guarded: Guarded, plain: Guarded, truth: Floats, generator: np.random.Generator) -> dict[str, Estimate]:
    return {
        "truth": correlation_gain_interval(guarded.last, plain.last, truth, generator=generator),
        "averaged": correlation_gain_interval(guarded.averaged, plain.averaged, truth, generator=generator),
        "instances": Estimate(*map(float, stability_gain(guarded.last, plain.last, generator=generator))),
        "epochs": mean_interval(guarded.consistency - plain.consistency, generator=generator),
        "change": mean_interval(guarded.change - plain.change, generator=generator),
    }


def _table(found: dict[str, Guarded], gains: dict[str, dict[str, Estimate]]) -> Table:
    papers = {"none": 0.16, "projection": 0.48}
    rows: list[Row] = []
    for guard, measured in found.items():
        gain = gains.get(guard, {})
        rows.append(
            {
                "guard": guard,
                Column("accuracy", percent): float(measured.last.mean()),
                "paper: GT-Tau": papers.get(guard.partition(":")[0]),
                "ours: GT-Tau": float(measured.taus.mean()),
                "gain": gain.get("truth"),
                "gain, mean of epochs": gain.get("averaged"),
                "S-Tau": stability(measured.last).mean,
                "gain ": gain.get("instances"),
                "KTau of epochs": float(measured.consistency.mean()),
                "gain  ": gain.get("epochs"),
                Column("change an epoch", percent): float(measured.change.mean()),
                Column("gain   ", percent): gain.get("change"),
            }
        )
    return tabled(rows, "Guards: correlation with the truth, and stability")


def _verdict(guard: str, gain: dict[str, Estimate]) -> str:
    """A guard's answer in words."""
    words = {
        "truth": "correlation with the truth",
        "instances": "agreement of supernets",
        "epochs": "agreement of epochs",
    }
    parts = []
    for key, name in words.items():
        low, high = gain[key].low, gain[key].high
        if low is None or high is None or low <= 0 <= high:
            parts.append(f"no gain in the {name} that can be told from 0")
        else:
            parts.append(f"{'a gain' if low > 0 else 'a loss'} in the {name}")
    return f"{guard}: {', '.join(parts)}."
