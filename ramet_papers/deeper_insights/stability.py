"""Tables 1 and 2 and Figure 3: how stable shared rankings are, how far from the truth, and what they are good for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.metrics import Floats, Stability, rank_correlation, rank_correlations, stability, top_n_rank
from ramet.reports import Column, Table
from ramet.reports.formats import decimals
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.deeper_insights.judges import (
    D1Figures,
    D2Figures,
    D3Figures,
    D4Figures,
    judge_d1,
    judge_d2,
    judge_d3,
    judge_d4,
)
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
    claim = judge_d1(
        D1Figures(
            command=_command("table-1", preset),
            setting=f"{_note(preset, results)} It is the single seed of a child that is noisy here: the mean of the "
            "seeds, which the other tables take as the truth, has a reliability of "
            f"{results['different seeds']['truth']['reliability_of_mean']:.2f}.",
            truth=found["ground truth"],
            shared={name: found[name] for name in EXPERIMENTS},
            seeds=preset.instances,
        )
    )
    table = Table(columns, rows, title="Table 1: agreement of two rankings")
    return Outcome("Deeper insights, Table 1", [table], [claim]).kept(workspace.results)


def table_2(workspace: Workspace, preset_name: str) -> Outcome:
    """Comparison with the ground truth: GT-Tau and top-n rank."""
    preset = PRESETS[preset_name]
    results = run_experiments(workspace, preset)
    found = _truth_rows(results)
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
    parameters = results["different seeds"]["correlation"]["parameters"]
    claims = [
        judge_d2(
            D2Figures(
                command=_command("table-2", preset),
                setting=f"{_note(preset, results)} In the paper each seed of the truth is compared with the mean of "
                f"all, of which it is a part: that would be {np.mean(found['ground truth'][0]):.2f}. The parameter "
                f"count alone has {parameters['tau']['value']:.2f}.",
                shared=np.concatenate([found[name][0] for name in EXPERIMENTS]),
                others=others_correlations(np.asarray(results["different seeds"]["truth"]["seeds_scores"])),
                seeds=preset.instances,
            )
        ),
        judge_d3(
            D3Figures(
                command=_command("table-2", preset),
                setting="",
                taus=np.concatenate([np.asarray(result["over_time"]["epochs"]) for result in results.values()]),
            )
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
    claim = judge_d4(
        D4Figures(
            command=_command("figure-3", preset),
            setting=f"Pruning by the number of parameters keeps {result['pruning']['parameters']:.0%}.",
            kept={name: r["pruning"]["averaged over epochs"] for name, r in results.items()},
            seeds=preset.instances * len(results),
        )
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


def others_correlations(truth: Floats) -> Floats:
    """Kendall's tau of each seed of the truth with the mean of the other seeds; none of a single seed.

    Args:
        truth: shape [seeds, children].
    """
    if len(truth) < 2:
        return np.empty(0)
    return np.array(
        [rank_correlation(scores, np.delete(truth, seed, axis=0).mean(axis=0)) for seed, scores in enumerate(truth)]
    )


def _spread(values: np.ndarray[Any, Any]) -> str:
    return f"{values.mean():.2f} ± {values.std():.2f}"


def _command(target: str, preset: SharingPreset) -> str:
    return f"ramet reproduce deeper-insights/{target} --preset {preset.name}"


def _note(preset: SharingPreset, results: dict[str, Json]) -> str:
    truth = next(iter(results.values()))["truth"]
    halves = truth["reliability_of_halves"]
    return f"{preset.note} Two halves of the truth's {truth['seeds']} seeds correlate at {halves:.2f}."
