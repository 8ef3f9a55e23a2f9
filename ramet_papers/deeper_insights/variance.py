"""Figures 4, 5, 8 and 9: where the variance comes from, and what a few mini-batches of fine-tuning repair."""

from __future__ import annotations

import numpy as np

from ramet.jobs.rank import RankJob
from ramet.ranking.diagnosis import instance_key
from ramet.ranking.metrics import Floats, rank_correlations
from ramet.ranking.plan import variation_overrides
from ramet.reports import Column, Table
from ramet.reports.formats import percent
from ramet.runs import read_records
from ramet.runs.encoding import Json
from ramet.spaces import Cells64
from ramet_papers.deeper_insights.judges import D5Figures, D6Figures, D9Figures, judge_d5, judge_d6, judge_d9
from ramet_papers.deeper_insights.presets import PRESETS, SharingPreset
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.workspace import Workspace

NO_MOMENTUM = "momentum=0"
"""The variation without SGD's momentum."""


def figure_4(experiment: Experiment) -> Outcome:
    """Fine-tuning each child from a supernet that is half or fully trained."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    half = preset.diagnose(
        workspace,
        "half-trained",
        order="shuffled",
        stop_epoch=preset.supernet_epochs // 2,
        fine_tune_steps=preset.fine_tune_steps,
        fine_tune_instances=preset.instances,
        fine_tune_learning_rate=preset.settings.learning_rate_at(1, 2),  # what the schedule has there
    )
    results = {"half": half, "full": _shuffled_run(workspace, preset)}
    curves = {name: np.asarray(result["over_time"]["fine_tuned_per_instance"]) for name, result in results.items()}
    points = results["full"]["over_time"]["fine_tuned_after"]  # curves have the shape [instances, points]
    columns = ["mini-batches", "from half of the training", "from all of it"]
    rows = [[p, float(curves["half"][:, i].mean()), float(curves["full"][:, i].mean())] for i, p in enumerate(points)]
    table = Table(columns, rows, title="Figure 4: GT-Tau after fine-tuning each child alone")
    figures = D5Figures(
        command=experiment.command,
        setting=f"{preset.note} {_room(results['full'])}",
        points=tuple(points),
        full=curves["full"],
        half=curves["half"],
        frozen=None,  # fine-tuning by batch norm alone is not measured here
    )
    return Outcome("Deeper insights, Figure 4", [table], [judge_d5(figures)])


def _room(result: Json) -> str:
    """How much better than the shared ranking a child of one's own is at all, in words."""
    own = result["stability"]["truth"]["mean"]
    shared = result["over_time"]["mean_over_steps"]
    return (
        f"Two seeds of children trained alone agree at {own:.2f}, while the shared ranking has {shared:.2f} with the "
        f"mean of {result['settings']['plan']['truth_seeds']} seeds: "
        + ("there is room to repair." if own > shared + 0.1 else "there is hardly any room to repair at this scale.")
    )


def figure_5(experiment: Experiment) -> Outcome:
    """Every child's accuracy after each of the last mini-batches: the one just trained is (nearly) the best."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    last = {"last_steps": preset.figure_steps, "step_samples": preset.figure_samples}
    results = {
        "cyclic": preset.diagnose(workspace, "cyclic", order="cyclic", **last),
        "shuffled": _shuffled_run(workspace, preset),
    }
    rows: list[Row] = []
    for order, result in results.items():
        trained, effect = result["trained_is_best"], result["disturbance"]
        taus = np.asarray(result["over_time"]["steps"])
        rows.append(
            {
                "order": order,
                Column("in the best quarter", percent): trained["share_in_best_quarter"],
                Column("the best", percent): trained["share_best"],
                "median rank": trained["median_rank"],
                "own change, points": 100 * effect["own"],
                "others' change, points": 100 * effect["others"],
                "GT-Tau lowest": float(taus.min()),
                "GT-Tau highest": float(taus.max()),
            }
        )
    table = tabled(rows, f"Figure 5: the child just trained, over the last {preset.figure_steps} mini-batches")
    shuffled, best = results["shuffled"], {order: result["trained_is_best"] for order, result in results.items()}
    own, spread = 100 * shuffled["disturbance"]["own"], 100 * shuffled["accuracy"]["spread_of_children"]
    figures = D6Figures(
        command=experiment.command,
        setting=f"{preset.note} Chance is 25 %. A step raises its own child by {own:.1f} points (shuffled), "
        f"while the children's accuracies deviate by {spread:.1f}: near the end of the schedule, one step at "
        f"a learning rate of {preset.settings.final_learning_rate:g} cannot carry a child past most others.",
        shares={order: found["share_in_best_quarter"] for order, found in best.items()},
        median_ranks={order: found["median_rank"] for order, found in best.items()},
        children=len(shuffled["children"]),
        seeds=preset.instances,
    )
    return Outcome("Deeper insights, Figure 5", [table], [judge_d6(figures)])


def figure_8(experiment: Experiment) -> Outcome:
    """The momentum of batch norm and of SGD (Figures 8 and 9): what each does to the stability of the ranking."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    result = _shuffled_run(workspace, preset)
    plain = {"variation": "as in the paper", "accuracy": result["accuracy"]["mean"], **result["over_time"]}
    rows: list[Row] = [
        {
            "setting": row["variation"],
            Column("accuracy", percent): row["accuracy"],
            "GT-Tau": row["mean_over_steps"],
            "its deviation over mini-batches": row["deviation_over_steps"],
        }
        for row in (plain, *result["variations"])
    ]
    table = tabled(rows, "Figures 8 and 9: momentum of SGD and of batch norm")
    listed = "; ".join(f"{name}: {tau:.2f} ± {deviation:.3f}" for name, _, tau, deviation in table.rows)
    figures = D9Figures(
        command=experiment.command,
        setting=f"{preset.note} GT-Tau and its deviation: {listed}.",
        plain=_deviations(workspace, preset, ""),
        lower_norm=_deviations(workspace, preset, _lower_norm_momentum(preset)),
        without=_deviations(workspace, preset, NO_MOMENTUM),
        without_faster=None,  # a variation changes one setting only
    )
    return Outcome("Deeper insights, Figures 8 and 9", [table], [judge_d9(figures)])


def _lower_norm_momentum(preset: SharingPreset) -> str:
    """The variation with the lowest momentum of batch norm, which is below the space's own."""
    momenta = {text: variation_overrides(text)[1] for text in preset.variations}
    lowest = {text: momentum for text, momentum in momenta.items() if momentum is not None}
    found = min(lowest, key=lambda text: lowest[text])
    assert lowest[found] < Cells64(**preset.space_options).bn_momentum, "one variation must lower the momentum"
    return found


def _deviations(workspace: Workspace, preset: SharingPreset, variation: str) -> Floats:
    """The deviation of GT-Tau over the last mini-batches of each supernet; [instances]."""
    run = workspace.run_of(*_shuffled_job(workspace, preset))
    records = {record["key"]: record for record in read_records(run)}
    truth = np.asarray(records["result"]["truth"]["mean"])
    steps = [np.asarray(records[instance_key(variation, i, 0)]["steps"]) for i in range(preset.instances)]
    return np.array([rank_correlations(scores, truth[None])[:, 0].std() for scores in steps])


def _shuffled_run(workspace: Workspace, preset: SharingPreset) -> Json:
    return workspace.diagnose(*_shuffled_job(workspace, preset))


def _shuffled_job(workspace: Workspace, preset: SharingPreset) -> tuple[str, RankJob]:
    """The run that Figures 4, 5, 8 and 9 look at: the last mini-batches, fine-tuning, and other momenta."""
    job = preset.job(
        workspace,
        order="shuffled",
        last_steps=preset.figure_steps,
        step_samples=preset.figure_samples,
        fine_tune_steps=preset.fine_tune_steps,
        fine_tune_instances=preset.instances,
        also=preset.variations,
    )
    return f"deeper-insights-{preset.name}/shuffled", job
