"""Tables 3a, 3b and 4 and Figure 6: sharing less, by groups or by a common prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats, rank_correlations
from ramet.reports import Column
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet.spaces import Cells64
from ramet_papers.deeper_insights.curves import Curves, write_curves
from ramet_papers.deeper_insights.judges import D7Figures, D8Figures, judge_d7, judge_d8
from ramet_papers.deeper_insights.presets import PRESETS, SharingPreset
from ramet_papers.experiment import Experiment, Outcome, Row, tabled

# GT-Tau-Mean-64 of Table 3a, by the number of groups.
PAPER_GROUPS: dict[str, dict[int, float]] = {
    "random": {1: 0.4988, 2: 0.4577, 4: 0.2736, 8: 0.2539, 16: 0.1658, 32: 0.2903, 64: 0.8032},
    "similar": {1: 0.4988, 2: 0.3425, 4: 0.7075, 8: 0.6917, 16: 0.7200, 32: 0.7360, 64: 0.8032},
    "interference": {},
}
# GT-Tau-Mean-64, GT-Tau-Std-64, mean and deviation of accuracy of Table 4, by the number of shared cells.
PAPER_LONG = {0: (0.6960, 0.0129, 0.7793, 0.0245), 1: (0.4837, 0.0939, 0.7691, 0.0378)}
PAPER_LONG |= {2: (0.4159, 0.1925, 0.6972, 0.0640), 3: (0.4448, 0.1881, 0.6636, 0.0823)}
PAPER_LONG |= {4: (0.5174, 0.1592, 0.6639, 0.0995)}
PAPER_SHORT = {0: (0.0441, 0.0145, 0.6083, 0.0173), 1: (0.3895, 0.0989, 0.6435, 0.0298)}
PAPER_SHORT |= {2: (0.4104, 0.1801, 0.6035, 0.0535), 3: (0.4545, 0.1570, 0.6081, 0.0667)}
PAPER_SHORT |= {4: (0.4899, 0.1622, 0.6177, 0.0800)}
MEASURES = ("paper: mean", "paper: deviation", "ours: mean", "ours: deviation")


def table_3a(experiment: Experiment) -> Outcome:
    """Group sharing: children grouped at random, by similarity, and by measured interference."""
    preset = PRESETS[experiment.preset_name].for_sharing()
    children = len(Cells64(**preset.space_options))
    taus: dict[tuple[str, int], Floats] = {}  # GT-Tau after each of the last steps, [instances, steps]
    groups: dict[tuple[str, int], set[frozenset[str]]] = {}
    for grouping in ("random", "similar", "interference"):
        for num_groups in preset.num_groups if grouping != "interference" else preset.interference_groups:
            # Shared by all, or by nobody, groups are the same however they are made.
            key = (grouping, num_groups) if 1 < num_groups < children else ("similar", num_groups)
            if key not in taus:
                result = _group_run(experiment, preset, *key)
                taus[key] = np.asarray(result["over_time"]["steps"])
                groups[key] = {frozenset(group) for group in result["groups"] or []}
    for num_groups in {1, children} & set(preset.num_groups):
        taus["random", num_groups] = taus["similar", num_groups]
    rows: list[Row] = []
    for num_groups in preset.num_groups:
        row: dict[Column | str, Any] = {"groups": num_groups}
        for place, (grouping, paper) in enumerate(PAPER_GROUPS.items()):
            found = taus.get((grouping, num_groups))
            row |= {f"paper: {grouping}": paper.get(num_groups)} if paper else {}
            row[f"ours: {grouping}"] = None if found is None else experiment.mean(found.mean(axis=1))
            row["its deviation" + place * " "] = None if found is None else float(found.std(axis=1).mean())
        rows.append(row)
    title = f"Table 3a: GT-Tau, mean over the last {preset.group_steps} mini-batches (95 % interval over instances)"
    at = _judged_groups(preset)
    figures = D7Figures(
        command=experiment.command,
        setting=f"{preset.note} Each group trains {preset.group_epochs} epochs; full sharing has {at} times fewer "
        "mini-batches in all.",
        full=taus["similar", 1].mean(axis=1),
        random=taus["random", at].mean(axis=1),
        similar=taus["similar", at].mean(axis=1),
        groups=at,
    )
    return Outcome(
        "Deeper insights, Table 3a", [tabled(rows, title)], [judge_d7(figures)], _interference_notes(taus, groups)
    )


def table_3b(experiment: Experiment) -> Outcome:
    """Prefix sharing, trained long: Table 3b is the upper half of Table 4."""
    preset = PRESETS[experiment.preset_name].for_sharing()
    rows, _ = _prefix_rows(experiment, preset, preset.long_epochs, PAPER_LONG)
    shown: list[Row] = [
        {key: value for key, value in row.items() if key in ("shared cells", *MEASURES)} for row in rows
    ]
    table = tabled(shown, f"Table 3b: prefix sharing, {preset.long_epochs} epochs")
    return Outcome("Deeper insights, Table 3b", [table])


def table_4(experiment: Experiment) -> Outcome:
    """Prefix sharing, trained long and short."""
    preset = PRESETS[experiment.preset_name].for_sharing()
    above, long = _prefix_rows(experiment, preset, preset.long_epochs, PAPER_LONG)
    under, short = _prefix_rows(experiment, preset, preset.short_epochs, PAPER_SHORT)
    table = tabled([*above, *under], f"Table 4: GT-Tau over the last {preset.group_steps} mini-batches")
    figures = D8Figures(
        command=experiment.command,
        setting=f"{preset.note} Long is {preset.long_epochs} epochs, short {preset.short_epochs}. With k = 0 a "
        f"child learns from its own mini-batches alone: {preset.long_epochs / 64:.3g} epochs of them in the long "
        f"training, where a child alone takes {preset.settings.epochs}, and the paper's long training has 31.",
        long=long,
        short=short,
    )
    return Outcome("Deeper insights, Table 4", [table], [judge_d8(figures)])


def figure_6(experiment: Experiment) -> Outcome:
    """One random group: which of its children rise and fall together, in their group (a) and when all share (b)."""
    preset = PRESETS[experiment.preset_name].for_sharing()
    at = _judged_groups(preset)
    result, shared = (_group_run(experiment, preset, *key) for key in (("random", at), ("similar", 1)))
    group = result["groups"][0]
    truth, scores = _of_group(result, group, "averaged")
    _, by_all = _of_group(shared, group, "averaged")
    rows: list[Row] = [
        {
            "child": child,
            Column("alone", percent): float(alone),
            Column("in its group (a)", percent): float(score),
            Column("shared by all (b)", percent): float(other),
        }
        for child, alone, score, other in zip(group, truth, scores.mean(axis=0), by_all.mean(axis=0), strict=True)
    ]
    table = tabled(rows, f"Figure 6: a random group of {len(group)} children")
    within = [_within_group(result, members) for members in result["groups"]]
    defined = [tau for tau in within if tau == tau]
    inside = f"{np.mean(defined):.2f}" if defined else "undefined"
    notes = [f"GT-Tau within a group, the mean of the {len(within)} groups: {inside} (paper: 0.26)."]
    charts = []
    for key, words in (
        (("random", at), f"(a) In a random group of {len(group)}"),
        (("similar", 1), "(b) Shared by all"),
    ):
        steps = _steps_of(experiment, preset, key, group)  # [steps, children]
        lines = {child: (100 * steps[:, place]).tolist() for place, child in enumerate(group)}
        points = list(range(1, len(steps) + 1))
        charts.append(Curves(f"{words}: a line a child.", "mini-batch, of the last ones", "accuracy, %", points, lines))
        together, count = moves_together(steps)
        notes.append(
            f"{words}: {together} of {count} pairs of these children rise and fall together (correlation > 0)."
        )
    notes.append(write_curves(experiment, "Deeper insights, Figure 6", charts))
    return Outcome("Deeper insights, Figure 6", [table], [], notes)


def moves_together(steps: Floats) -> tuple[int, int]:
    """How many pairs of children change in the same direction from step to step, of how many whose changes vary.

    Args:
        steps: accuracies, [steps, children].
    """
    changes = np.diff(steps, axis=0)
    changes = changes[:, changes.std(axis=0) > 0] if len(changes) > 1 else changes[:, :0]
    if changes.shape[1] < 2:
        return 0, 0
    pairs = np.asarray(np.corrcoef(changes.T))[np.triu_indices(changes.shape[1], 1)]
    return int((pairs > 0).sum()), len(pairs)


def _steps_of(experiment: Experiment, preset: SharingPreset, key: tuple[str, int], children: Sequence[str]) -> Floats:
    """The accuracies of some children after each of the last mini-batches of the first supernet, [steps, children]."""
    name, plan = _group_plan(preset, *key)
    result = preset.diagnose(experiment.workspace, name, **plan)
    record = preset.instances_of(experiment.workspace, name, **plan)[0]
    scored = result["groups"][0] if result["groups"] else result["children"]
    places = [scored.index(child) for child in children]
    return np.asarray(record["steps"], float)[:, places]


def _judged_groups(preset: SharingPreset) -> int:
    """16 groups, or the most that the preset has of those with several children."""
    children = len(Cells64(**preset.space_options))
    return 16 if 16 in preset.num_groups else max(count for count in preset.num_groups if count < children)


def _group_plan(preset: SharingPreset, grouping: str, num_groups: int) -> tuple[str, Json]:
    """The name and the plan of a run of groups."""
    sharing = "full" if num_groups == 1 else f"groups:{num_groups}:{grouping}"
    plan: Json = {"varied": "both", "order": "shuffled", "sharing": sharing, "last_steps": preset.group_steps}
    return f"groups-{num_groups}-{grouping}", plan | {"supernet_epochs": preset.group_epochs}


def _group_run(experiment: Experiment, preset: SharingPreset, grouping: str, num_groups: int) -> Json:
    name, plan = _group_plan(preset, grouping, num_groups)
    return preset.diagnose(experiment.workspace, name, **plan)


def _prefix_run(experiment: Experiment, preset: SharingPreset, num_shared_cells: int, epochs: int) -> Json:
    plan = {"varied": "both", "order": "shuffled", "last_steps": preset.group_steps}
    plan |= {"sharing": f"prefix:{num_shared_cells}", "supernet_epochs": epochs}
    return preset.diagnose(experiment.workspace, f"prefix-{num_shared_cells}-epochs-{epochs}", **plan)


def _prefix_rows(
    experiment: Experiment, preset: SharingPreset, epochs: int, paper: Mapping[int, tuple[float, float, float, float]]
) -> tuple[list[Row], dict[int, Floats]]:
    """The rows of one length of training, and GT-Tau of each supernet by the number of shared cells."""
    rows: list[Row] = []
    means: dict[int, Floats] = {}
    for k in preset.shared_cells:
        result = _prefix_run(experiment, preset, k, epochs)
        taus = np.asarray(result["over_time"]["steps"])  # [instances, steps]
        means[k], generator = taus.mean(axis=1), numpy_generator(experiment.workspace.seed, "prefix")
        ours = mean_interval(means[k], generator=generator), float(taus.std(axis=1).mean())
        rows.append(
            {
                "epochs": epochs,
                "shared cells": k,
                **dict(zip(MEASURES, (*paper[k][:2], *ours), strict=True)),
                Column("paper: accuracy", percent): paper[k][2],
                Column("ours: accuracy", percent): result["accuracy"]["mean"],
                Column("paper: its deviation", percent): paper[k][3],
                Column("ours: its deviation", percent): accuracy_deviation(result["accuracy"]["averaged"]),
            }
        )
    return rows, means


def accuracy_deviation(averaged: Sequence[Sequence[float]]) -> float:
    """The deviation over children of accuracies averaged over mini-batches, [instances, children]; its mean."""
    return float(np.asarray(averaged, float).std(axis=1).mean())


def _interference_notes(
    taus: dict[tuple[str, int], Floats], groups: dict[tuple[str, int], set[frozenset[str]]]
) -> list[str]:
    """Whether groups by measured interference beat lexicographic slices, in words."""
    notes = []
    for num_groups in (count for grouping, count in taus if grouping == "interference"):
        measured, slices = (taus[grouping, num_groups].mean(axis=1) for grouping in ("interference", "similar"))
        if groups["interference", num_groups] == groups["similar", num_groups]:
            verdict = "finds exactly the lexicographic slices by itself, and so gains nothing over them,"
        else:
            verdict = f"{'beats' if measured.mean() > slices.mean() else 'does not beat'} lexicographic slices"
        notes.append(
            f"Grouping by measured interference {verdict} at {num_groups} groups: {measured.mean():.2f} ± "
            f"{measured.std():.2f} against {slices.mean():.2f} ± {slices.std():.2f}."
        )
    return notes


def _of_group(result: Json, members: list[str], scores: str) -> tuple[Floats, Floats]:
    """The truth of a group's children, and some scores of theirs, [instances, children]."""
    places = [result["children"].index(child) for child in members]
    return np.asarray(result["truth"]["mean"])[places], np.asarray(result["accuracy"][scores])[:, places]


def _within_group(result: Json, members: list[str]) -> float:
    truth, last = _of_group(result, members, "last")
    taus = rank_correlations(last, truth[None])
    defined = taus[~np.isnan(taus)]  # children that all score the same have no order
    return float(defined.mean()) if len(defined) else float("nan")
