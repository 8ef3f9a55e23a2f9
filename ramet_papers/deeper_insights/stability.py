"""Tables 1 and 2 and Figure 3: how stable shared rankings are, how far from the truth, and what they are good for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Stability, rank_correlations, stability, top_n_rank
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import decimals
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.deeper_insights.presets import PRESETS, SharingPreset
from ramet_papers.workspace import Outcome, Workspace

EXPERIMENTS: dict[str, Json] = {
    "different seeds": {"varied": "weights", "order": "cyclic"},
    "different orders": {"varied": "order", "order": "cyclic"},
    "different orders (shuffle)": {"varied": "order", "order": "shuffled"},
}
PAPER_TABLE_1 = {
    "different seeds": (0.5415, 0.7977, 0.2471),
    "different orders": (0.3930, 0.7021, -0.0129),
    "different orders (shuffle)": (0.4403, 0.7163, 0.0764),
    "random rank": (0.0382, 0.2181, -0.1552),
    "ground truth": (0.7120, 0.8191, 0.6650),
    "different epochs": (0.5310, 0.8752, 0.0918),
}
PAPER_TABLE_2 = {
    "different seeds": (0.4567, 18.5, 17.6),
    "different orders": (0.4625, 16.9, 11.5),
    "different orders (shuffle)": (0.5108, 15.6, 11.2),
    "ground truth": (0.7985, 4.8, 1.6),
    "different epochs": (0.5053, 15.2, 13.2),
}


def table_1(workspace: Workspace, preset_name: str) -> Outcome:
    """Instability of multiple runs, measured with S-Tau."""
    preset = PRESETS[preset_name]
    results = run_experiments(workspace, preset)
    found = _stability_rows(results, workspace.seed)
    rows: list[list[Any]] = [
        [name, paper[0], *found[name], paper[1], paper[2]] for name, paper in PAPER_TABLE_1.items()
    ]
    columns: list[Column | str] = [
        "experiment",
        Column("paper: S-Tau"),
        Column("ours: S-Tau"),
        "ours: highest",
        "ours: lowest",
        "paper: highest",
        "paper: lowest",
    ]
    shared = [found[name][0] for name in EXPERIMENTS]
    truth = found["ground truth"][0]
    claim = Claim(
        id="D1",
        claim="The truth is more stable than shared weights.",
        paper="S-Tau 0.71 against 0.39 to 0.54",
        ours=f"S-Tau {truth:.2f} against {min(shared):.2f} to {max(shared):.2f}",
        spread="pairs of instances from " + f"{min(found[n][2] for n in EXPERIMENTS):.2f} to "
        f"{max(found[n][1] for n in EXPERIMENTS):.2f}",
        seeds=preset.instances,
        holds=bool(truth > max(shared)),
        command=_command("table-1", preset),
        note=f"{_note(preset, results)} It is the single seed of a child that is noisy here: the mean of the seeds, "
        f"which the other tables take as the truth, has a reliability of "
        f"{results['different seeds']['truth']['reliability_of_mean']:.2f}.",
    )
    table = Table(columns, rows, title="Table 1: agreement of two rankings")
    return Outcome("Deeper insights, Table 1", [table], [claim]).kept(workspace.results)


def table_2(workspace: Workspace, preset_name: str) -> Outcome:
    """Comparison with the ground truth: GT-Tau and top-n rank."""
    preset = PRESETS[preset_name]
    results = run_experiments(workspace, preset)
    found = _truth_rows(results)
    generator = numpy_generator(workspace.seed, "table-2")
    rows: list[list[Any]] = []
    for name, (tau, top_1, top_3) in PAPER_TABLE_2.items():
        taus, ones, threes = found[name]
        rows.append([name, tau, _spread(taus), top_1, float(np.mean(ones)), top_3, float(np.mean(threes))])
    columns: list[Column | str] = [
        "experiment",
        "paper: GT-Tau",
        "ours: GT-Tau",
        "paper: T1R",
        Column("ours: T1R", decimals(1)),
    ]
    columns += ["paper: T3R", Column("ours: T3R", decimals(1))]
    shared = np.concatenate([found[name][0] for name in EXPERIMENTS])
    gap = float(np.mean(found["ground truth"][0]) - shared.mean())
    epochs = np.concatenate([np.asarray(r["over_time"]["epochs"]) for r in results.values()])  # [instances, epochs]
    deviation = epochs.std(axis=1)
    parameters = results["different seeds"]["correlation"]["parameters"]
    claims = [
        Claim(
            id="D2",
            claim="The shared ranking is far from the truth.",
            paper="GT-Tau 0.46 to 0.51 against 0.80",
            ours=f"{shared.mean():.2f} against {np.mean(found['ground truth'][0]):.2f}: {gap:.2f} below",
            spread=_text(mean_interval(shared, generator=generator)),
            seeds=preset.instances,
            holds=gap >= 0.15,
            command=_command("table-2", preset),
            note=_note(preset, results)
            + " The truth's own, as in the paper, is each seed against the mean of all, of which it is a part; "
            f"against the other seeds alone it has {results['different seeds']['stability']['truth']['mean']:.2f}. "
            f"The parameter count alone has {parameters['tau']['value']:.2f}.",
        ),
        Claim(
            id="D3",
            claim="The ranking is unstable over the last epochs of one run.",
            paper="GT-Tau between 0.1 and 0.7, deviation 0.14",
            ours=f"deviation {deviation.mean():.3f}, from {epochs.min():.2f} to {epochs.max():.2f}",
            spread=f"deviations from {deviation.min():.3f} to {deviation.max():.3f}",
            seeds=len(deviation),
            holds=bool(deviation.mean() > 0.05),
            command=_command("table-2", preset),
            note=f"Over the last {epochs.shape[1]} epochs of each of {len(deviation)} supernets.",
        ),
    ]
    table = Table(columns, rows, title="Table 2: against the truth")
    return Outcome("Deeper insights, Table 2", [table], claims).kept(workspace.results)


def figure_3(workspace: Workspace, preset_name: str) -> Outcome:
    """Distribution of each child's rank, ordered from the truly best to the worst, and what pruning would lose."""
    preset = PRESETS[preset_name]
    results = run_experiments(workspace, preset)
    result = results["different orders (shuffle)"]
    truth = np.asarray(result["truth"]["mean"])
    order = np.argsort(-truth)
    quarters = np.array_split(order, 4)
    rows: list[list[Any]] = []
    for name, key in (
        (f"{preset.instances} instances (a)", "over_instances"),
        ("last epochs of one instance (b)", "over_epochs"),
    ):
        ranks = np.asarray(result["ranks"][key])  # [children, rankings]
        rows.append([name, *[float(ranks[quarter].mean()) for quarter in quarters], float(ranks.std(axis=1).mean())])
    columns = ["ranks", "best quarter", "second", "third", "worst quarter", "deviation of a child's rank"]
    table = Table(columns, rows, title="Figure 3: mean rank of the children of each true quarter")
    kept = np.array([r["pruning"]["averaged over epochs"] for r in results.values()])
    per_run = {name: r["pruning"]["averaged over epochs"] for name, r in results.items()}
    trivial = result["pruning"]["parameters"]
    claim = Claim(
        id="D4",
        claim="Bad children can be filtered out.",
        paper="Figure 3, no figure given",
        ours=f"pruning half by the mean over the last epochs keeps {kept.mean():.0%} of the true best quarter",
        spread=", ".join(f"{value:.0%} ({name})" for name, value in per_run.items()),
        seeds=preset.instances * len(kept),
        holds=bool(kept.mean() >= 0.9),
        command=_command("figure-3", preset),
        note=f"Pruning by the number of parameters keeps {trivial:.0%}.",
    )
    notes = [f"Plots: report.html in each folder of {workspace.runs / f'deeper-insights-{preset.name}'}"]
    return Outcome("Deeper insights, Figure 3", [table], [claim], notes).kept(workspace.results)


def run_experiments(workspace: Workspace, preset: SharingPreset) -> dict[str, Json]:
    """The three experiments of Tables 1 and 2."""
    return {
        name: workspace.diagnose(run_name(preset, name), preset.job(workspace, last_epochs=preset.last_epochs, **plan))
        for name, plan in EXPERIMENTS.items()
    }


def run_name(preset: SharingPreset, experiment: str) -> str:
    """The folder of an experiment's run."""
    words = "".join(letter if letter.isalnum() else "-" for letter in experiment).strip("-")
    return f"deeper-insights-{preset.name}/{words}"


def _stability_rows(results: dict[str, Json], seed: int) -> dict[str, Stability]:
    rows: dict[str, Stability] = {}
    for name, result in results.items():
        rows[name] = stability(result["accuracy"]["last"])
    any_result = next(iter(results.values()))
    generator = numpy_generator(seed, "random-rank")
    rows["random rank"] = stability(generator.random((10, len(any_result["children"]))))
    row = any_result["stability"]["truth"]
    rows["ground truth"] = Stability(row["mean"], row["highest"], row["lowest"])
    ranks = np.asarray(results["different orders (shuffle)"]["ranks"]["over_epochs"]).T  # [epochs, children]
    rows["different epochs"] = stability(-ranks)
    return rows


def _truth_rows(results: dict[str, Json]) -> dict[str, tuple[np.ndarray[Any, Any], list[int], list[int]]]:
    rows = {}
    any_result = next(iter(results.values()))
    truth = np.asarray(any_result["truth"]["mean"])

    def row(scores: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[int], list[int]]:
        taus = rank_correlations(scores, truth[None])[:, 0]
        return taus, *[[top_n_rank(ranking, truth, n) for ranking in scores] for n in (1, 3)]  # type: ignore[return-value]

    for name, result in results.items():
        rows[name] = row(np.asarray(result["accuracy"]["last"]))
    rows["ground truth"] = row(np.asarray(any_result["truth"]["seeds_scores"]))
    ranks = np.asarray(results["different orders (shuffle)"]["ranks"]["over_epochs"]).T
    rows["different epochs"] = row(-ranks)
    return rows


def _spread(values: np.ndarray[Any, Any]) -> str:
    return f"{values.mean():.2f} ± {values.std():.2f}"


def _text(estimate: Estimate) -> str:
    return f"95 % interval {estimate.interval_text()}"


def _command(target: str, preset: SharingPreset) -> str:
    return f"ramet reproduce deeper-insights/{target} --preset {preset.name}"


def _note(preset: SharingPreset, results: dict[str, Json]) -> str:
    truth = next(iter(results.values()))["truth"]
    halves = truth["reliability_of_halves"]
    return f"{preset.note} Two halves of the truth's {truth['seeds']} seeds correlate at {halves:.2f}."
