"""Figures 4, 5, 8 and 9: where the variance comes from, and what a few mini-batches of fine-tuning repair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ramet.ranking.metrics import Floats, rank_correlations, ranks
from ramet.reports import Column, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.spaces import Cells64
from ramet_papers.deeper_insights.curves import Curves, write_curves
from ramet_papers.deeper_insights.judges import (
    D5Figures,
    D6Figures,
    D9aFigures,
    D9bFigures,
    judge_d5,
    judge_d6,
    judge_d9a,
    judge_d9b,
)
from ramet_papers.deeper_insights.presets import PRESETS, SharingPreset
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.workspace import Workspace


def figure_4(experiment: Experiment) -> Outcome:
    """Fine-tuning each child from a supernet that is half or fully trained, and with weights that stay as they are."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    tuned = {"order": "shuffled", "instances": preset.fine_tune_instances}
    tuned |= {"fine_tune_steps": preset.fine_tune_steps, "fine_tune_instances": preset.fine_tune_instances}
    half = preset.diagnose(
        workspace,
        "half-trained",
        stop_epoch=preset.supernet_epochs // 2,
        fine_tune_learning_rate=preset.settings.learning_rate_at(1, 2),  # what the schedule has there
        **tuned,
    )
    # At the space's momentum of 0.4 five mini-batches replace 92 % of batch norm's statistics: is it they that repair?
    frozen = preset.diagnose(workspace, "frozen", fine_tune_learning_rate=0.0, **tuned)
    results = {"half": half, "full": _shuffled_run(workspace, preset), "frozen": frozen}
    curves = {name: np.asarray(result["over_time"]["fine_tuned_per_instance"]) for name, result in results.items()}
    points = results["full"]["over_time"]["fine_tuned_after"]  # curves have the shape [instances, points]
    columns = ["mini-batches", "from half of the training", "from all of it", "the same, weights frozen"]
    rows = [[p, *(float(curve[:, i].mean()) for curve in curves.values())] for i, p in enumerate(points)]
    table = Table(columns, rows, title="Figure 4: GT-Tau after fine-tuning each child alone")
    figures = D5Figures(
        command=experiment.command,
        setting=f"{preset.note} {_room(results['full'])}",
        points=tuple(points),
        full=curves["full"],
        half=curves["half"],
        frozen=curves["frozen"],
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
    name, cyclic = _cyclic(preset)
    results = {"cyclic": preset.diagnose(workspace, name, **cyclic), "shuffled": _shuffled_run(workspace, preset)}
    supernets = {
        "cyclic": preset.instances_of(workspace, name, **cyclic),
        "shuffled": preset.instances_of(workspace, "shuffled", **_shuffled(preset)),
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
        shares={order: best_quarter_shares(found) for order, found in supernets.items()},
        median_ranks={order: found["median_rank"] for order, found in best.items()},
        children=len(shuffled["children"]),
        seeds=preset.figure_instances,
    )
    return Outcome("Deeper insights, Figure 5", [table], [judge_d6(figures)])


def best_quarter_shares(supernets: Sequence[Json]) -> Floats:
    """For each supernet, the share of its last mini-batches whose child is then in the best quarter; [supernets].

    Args:
        supernets: records with ``steps`` [steps, children] and ``trained`` [steps], places among these children.
    """
    shares = []
    for record in supernets:
        found = ranks(np.asarray(record["steps"], float))  # [steps, children]
        own = found[np.arange(len(found)), record["trained"]]
        shares.append(float((own <= max(1, found.shape[1] / 4)).mean()))
    return np.array(shares)


def figure_7(experiment: Experiment) -> Outcome:
    """Figure 5 after a training ten times as long: the same ups and downs at a higher accuracy."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    name, short = _cyclic(preset)
    plans = {"as in Figure 5": (name, short)}
    longer = short | {"instances": 1, "supernet_epochs": preset.figure_7_epochs}
    plans["Figure 7"] = (f"{name}-epochs-{preset.figure_7_epochs}", longer)
    rows: list[Row] = []
    charts = []
    for words, (run, plan) in plans.items():
        result, record = preset.diagnose(workspace, run, **plan), preset.instances_of(workspace, run, **plan)[0]
        steps = np.asarray(record["steps"], float)  # [steps, children]
        taus = np.asarray(result["over_time"]["steps"])[0]
        rows.append(
            {
                "training": f"{words}, {plan.get('supernet_epochs', preset.supernet_epochs)} epochs",
                Column("accuracy", percent): float(steps.mean()),
                Column("a child's deviation over mini-batches", percent): float(steps.std(axis=0).mean()),
                Column("in the best quarter", percent): float(best_quarter_shares([record])[0]),
                "GT-Tau": float(taus.mean()),
                "its deviation": float(taus.std()),
            }
        )
        order = np.argsort(np.asarray(result["truth"]["mean"]))
        chosen = {result["children"][place]: place for place in (order[-1], order[len(order) // 2], order[0])}
        lines = {child: (100 * steps[:, place]).tolist() for child, place in chosen.items()}
        points = list(range(1, len(steps) + 1))
        caption = f"{words}: the truly best child, the one in the middle and the worst."
        charts.append(Curves(caption, "mini-batch, of the last ones", "accuracy, %", points, lines))
    table = tabled(rows, f"Figure 7: the last {preset.figure_steps} mini-batches of a long training, one supernet each")
    return Outcome("Deeper insights, Figure 7", [table], [], [write_curves(experiment, "Figure 7", charts)])


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
    taus = {variation: _taus(workspace, preset, variation) for variation in ("", *preset.variations)}
    deviations = {variation: found.std(axis=1) for variation, found in taus.items()}
    words = {"command": experiment.command, "setting": f"{preset.note} GT-Tau and its deviation: {listed}."}
    norm = D9aFigures(plain=deviations[""], lower=deviations[_lower_norm_momentum(preset)], **words)
    momentum = D9bFigures(
        plain=deviations[""],
        without=deviations[preset.without_momentum],
        faster=deviations[preset.without_momentum_faster],
        **words,
    )
    charts = [
        Curves(
            f"{variation or 'As in the paper'}: a line a supernet, of the first three.",
            "mini-batch, of the last ones",
            "GT-Tau",
            list(range(1, found.shape[1] + 1)),
            {f"supernet {place + 1}": row.tolist() for place, row in enumerate(found[:3])},
        )
        for variation, found in taus.items()
    ]
    title = "Deeper insights, Figures 8 and 9"
    return Outcome(title, [table], [judge_d9a(norm), judge_d9b(momentum)], [write_curves(experiment, title, charts)])


def _lower_norm_momentum(preset: SharingPreset) -> str:
    """The variation with the lowest momentum of batch norm, which is below the space's own."""
    lowest = min(preset.bn_momenta)
    assert lowest < Cells64(**preset.space_options).bn_momentum, "one variation must lower the momentum"
    return f"bn-momentum={lowest:g}"


def _taus(workspace: Workspace, preset: SharingPreset, variation: str) -> Floats:
    """GT-Tau after each of the last mini-batches of each supernet; [supernets, steps]."""
    truth = np.asarray(_shuffled_run(workspace, preset)["truth"]["mean"])
    found = preset.instances_of(workspace, "shuffled", variation, **_shuffled(preset))
    return np.stack([rank_correlations(np.asarray(record["steps"], float), truth[None])[:, 0] for record in found])


def _shuffled_run(workspace: Workspace, preset: SharingPreset) -> Json:
    return preset.diagnose(workspace, "shuffled", **_shuffled(preset))


def _shuffled(preset: SharingPreset) -> Json:
    """The run that Figures 4, 5, 8 and 9 look at: the last mini-batches, fine-tuning, and other momenta."""
    return {
        "order": "shuffled",
        "instances": preset.figure_instances,
        "last_steps": preset.figure_steps,
        "step_samples": preset.figure_samples,
        "fine_tune_steps": preset.fine_tune_steps,
        "fine_tune_instances": preset.fine_tune_instances,
        "also": preset.variations,
    }


def _cyclic(preset: SharingPreset) -> tuple[str, Json]:
    """The run of Figure 5a, and its name."""
    last = {"last_steps": preset.figure_steps, "step_samples": preset.figure_samples}
    return "cyclic", {"order": "cyclic", "instances": preset.figure_instances, **last}
