"""Tables 1 and 2 and Figure 3: how stable shared rankings are, how far from the truth, and what they are good for."""

from __future__ import annotations

import numpy as np

from ramet.ranking.metrics import Floats, Stability, rank_correlation, rank_correlations, stability, top_n_rank
from ramet.reports import Column
from ramet.reports.formats import decimals
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.deeper_insights import judges
from ramet_papers.deeper_insights.curves import Curves, write_curves
from ramet_papers.deeper_insights.presets import PRESETS, SharingPreset
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.workspace import Workspace

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


def table_1(experiment: Experiment) -> Outcome:
    """Instability of multiple runs, measured with S-Tau."""
    preset = PRESETS[experiment.preset_name]
    results = run_experiments(experiment.workspace, preset)
    over_epochs = _over_epochs(experiment.workspace, preset)
    found = _stability_rows(results, over_epochs, experiment.workspace.seed)
    rows: list[Row] = [
        {
            "experiment": name,
            "paper: S-Tau": paper[0],
            "ours: S-Tau": found[name].mean,
            "ours: highest": found[name].highest,
            "ours: lowest": found[name].lowest,
            "paper: highest": paper[1],
            "paper: lowest": paper[2],
        }
        for name, paper in PAPER_TABLE_1.items()
    ]
    figures = judges.D1Figures(
        command=experiment.command,
        setting=f"{_note(preset, results)} It is the single seed of a child that is noisy here: the mean of the "
        "seeds, which the other tables take as the truth, has a reliability of "
        f"{results['different seeds']['truth']['reliability_of_mean']:.2f}.",
        truth=found["ground truth"],
        shared={name: found[name] for name in EXPERIMENTS},
        seeds=preset.instances,
    )
    return Outcome(
        "Deeper insights, Table 1", [tabled(rows, "Table 1: agreement of two rankings")], [judges.judge_d1(figures)]
    )


def table_2(experiment: Experiment) -> Outcome:
    """Comparison with the ground truth: GT-Tau and top-n rank."""
    preset = PRESETS[experiment.preset_name]
    results = run_experiments(experiment.workspace, preset)
    found = _truth_rows(results, _over_epochs(experiment.workspace, preset))
    rows: list[Row] = []
    for name, (tau, top_1, top_3) in PAPER_TABLE_2.items():
        taus, ones, threes = found[name]
        rows.append(
            {
                "experiment": name,
                "paper: GT-Tau": tau,
                "ours: GT-Tau": f"{taus.mean():.2f} ± {taus.std():.2f}",
                "paper: T1R": top_1,
                Column("ours: T1R", decimals(1)): float(np.mean(ones)),
                "paper: T3R": top_3,
                Column("ours: T3R", decimals(1)): float(np.mean(threes)),
            }
        )
    first = results["different seeds"]
    against_truth = judges.D2Figures(
        command=experiment.command,
        setting=f"{_note(preset, results)} In the paper each seed of the truth is compared with the mean of "
        f"all, of which it is a part: that would be {np.mean(found['ground truth'][0]):.2f}. The parameter "
        f"count alone has {first['correlation']['parameters']['tau']['value']:.2f}.",
        shared=np.concatenate([found[name][0] for name in EXPERIMENTS]),
        others=others_correlations(np.asarray(first["truth"]["seeds_scores"])),
        seeds=preset.instances,
    )
    over_epochs = np.concatenate([np.asarray(result["over_time"]["epochs"]) for result in results.values()])
    last_epochs = judges.D3Figures(command=experiment.command, setting="", taus=over_epochs)
    table = tabled(rows, "Table 2: against the truth")
    return Outcome("Deeper insights, Table 2", [table], [judges.judge_d2(against_truth), judges.judge_d3(last_epochs)])


def figure_3(experiment: Experiment) -> Outcome:
    """Distribution of each child's rank, ordered from the truly best to the worst, and what pruning would lose."""
    preset = PRESETS[experiment.preset_name]
    results = run_experiments(experiment.workspace, preset)
    result = results["different orders (shuffle)"]
    quarters = np.array_split(np.argsort(-np.asarray(result["truth"]["mean"])), 4)
    shown = {f"{preset.instances} instances (a)": "over_instances", "last epochs of one instance (b)": "over_epochs"}
    rows: list[Row] = []
    for name, key in shown.items():
        ranks = np.asarray(result["ranks"][key])  # [children, rankings]
        means = [float(ranks[quarter].mean()) for quarter in quarters]
        rows.append(
            {
                "ranks": name,
                **dict(zip(("best quarter", "second", "third", "worst quarter"), means, strict=True)),
                "deviation of a child's rank": float(ranks.std(axis=1).mean()),
            }
        )
    table = tabled(rows, "Figure 3: mean rank of the children of each true quarter")
    figures = judges.D4Figures(
        command=experiment.command,
        setting=f"Pruning by the number of parameters keeps {result['pruning']['parameters']:.0%}.",
        kept={name: r["pruning"]["averaged over epochs"] for name, r in results.items()},
        seeds=preset.instances * len(results),
    )
    notes = [f"Plots: report.html in each folder of {experiment.folder}"]
    return Outcome("Deeper insights, Figure 3", [table], [judges.judge_d4(figures)], notes)


def figure_2(experiment: Experiment) -> Outcome:
    """S-Tau of the instances after every epoch: when one looks decides how stable the ranking is."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    curves: dict[str, list[float]] = {}
    every: Json = {"last_epochs": preset.supernet_epochs}
    for name in ("different seeds", "different orders (shuffle)"):
        found = preset.instances_of(workspace, f"every-epoch-{_words(name)}", **every, **EXPERIMENTS[name])
        scores = np.asarray([record["epochs"] for record in found])  # [instances, epochs, children]
        curves[name] = [stability(scores[:, epoch]).mean for epoch in range(scores.shape[1])]
    epochs = range(1, preset.supernet_epochs + 1)
    truth = preset.diagnose(workspace, f"every-epoch-{_words(name)}", **every, **EXPERIMENTS[name])["stability"][
        "truth"
    ]
    rows: list[Row] = [
        {"epoch": epoch, **{name: values[epoch - 1] for name, values in curves.items()}} for epoch in epochs
    ]
    last = {name: values[-preset.last_epochs :] for name, values in curves.items()}
    notes = [
        f"Over the last {preset.last_epochs} epochs S-Tau of {name} lies between {min(values):.2f} and "
        f"{max(values):.2f} (paper: 0.3 to 0.7 for different seeds)."
        for name, values in last.items()
    ]
    notes.append(
        f"Two seeds of the truth agree at {truth['mean']:.2f} after their last epoch; earlier ones are not kept."
    )
    chart = Curves("S-Tau of the instances after each epoch.", "epoch", "S-Tau", list(epochs), curves)
    title = "Deeper insights, Figure 2"
    notes.append(write_curves(experiment, title, [chart]))
    return Outcome(title, [tabled(rows, "Figure 2: S-Tau after every epoch")], [], notes)


def run_experiments(workspace: Workspace, preset: SharingPreset) -> dict[str, Json]:
    """The three experiments of Tables 1 and 2."""
    results = {}
    for name, plan in EXPERIMENTS.items():
        results[name] = preset.diagnose(workspace, _words(name), last_epochs=preset.last_epochs, **plan)
    return results


def _words(name: str) -> str:
    """The name of an experiment as that of a folder."""
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


def _stability_rows(results: dict[str, Json], over_epochs: Floats, seed: int) -> dict[str, Stability]:
    rows = {name: stability(result["accuracy"]["last"]) for name, result in results.items()}
    any_result = next(iter(results.values()))
    rows["random rank"] = stability(numpy_generator(seed, "random-rank").random((10, len(any_result["children"]))))
    row = any_result["stability"]["truth"]
    rows["ground truth"] = Stability(row["mean"], row["highest"], row["lowest"])
    rows["different epochs"] = stability(over_epochs)
    return rows


def _truth_rows(results: dict[str, Json], over_epochs: Floats) -> dict[str, tuple[Floats, list[int], list[int]]]:
    any_result = next(iter(results.values()))
    truth = np.asarray(any_result["truth"]["mean"])
    rankings = {name: np.asarray(result["accuracy"]["last"]) for name, result in results.items()}
    rankings["ground truth"] = np.asarray(any_result["truth"]["seeds_scores"])
    rankings["different epochs"] = over_epochs
    rows = {}
    for name, scores in rankings.items():
        ones, threes = ([top_n_rank(ranking, truth, n) for ranking in scores] for n in (1, 3))
        rows[name] = (rank_correlations(scores, truth[None])[:, 0], ones, threes)
    return rows


def _over_epochs(workspace: Workspace, preset: SharingPreset) -> Floats:
    """Scores after each of the last epochs of the median one of the supernets trained in other orders."""
    name = "different orders (shuffle)"
    found = preset.instances_of(workspace, _words(name), last_epochs=preset.last_epochs, **EXPERIMENTS[name])
    return median_instance(np.asarray([record["epochs"] for record in found]))


def median_instance(epochs: Floats) -> Floats:
    """The scores of the supernet whose last epochs agree as well as those of the median one, [epochs, children].

    Of an even number it is the lower one of the two in the middle; one that ranks nothing comes last.

    Args:
        epochs: shape [instances, epochs, children].
    """
    agreement = np.array([stability(scores).mean for scores in epochs])
    order = np.argsort(agreement)  # NaN last
    chosen: Floats = epochs[order[(len(order) - 1) // 2]]
    return chosen


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


def _note(preset: SharingPreset, results: dict[str, Json]) -> str:
    truth = next(iter(results.values()))["truth"]
    halves = truth["reliability_of_halves"]
    return f"{preset.note} Two halves of the truth's {truth['seeds']} seeds correlate at {halves:.2f}."
