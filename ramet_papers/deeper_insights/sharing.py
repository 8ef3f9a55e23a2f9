"""Tables 3a, 3b and 4 and Figure 6: sharing less, by groups or by a common prefix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats, rank_correlations
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.deeper_insights.judges import D7Figures, D8Figures, judge_d7, judge_d8
from ramet_papers.deeper_insights.presets import PRESETS, SharingPreset
from ramet_papers.workspace import Outcome, Workspace

# GT-Tau-Mean-64 and GT-Tau-Std-64 of Table 3a, by the number of groups.
PAPER_RANDOM = {1: (0.4988, 0.1497), 2: (0.4577, 0.1371), 4: (0.2736, 0.1340), 8: (0.2539, 0.1462)}
PAPER_RANDOM |= {16: (0.1658, 0.1255), 32: (0.2903, 0.1104), 64: (0.8032, 0.0151)}
PAPER_SIMILAR = {1: (0.4988, 0.1497), 2: (0.3425, 0.1442), 4: (0.7075, 0.0702), 8: (0.6917, 0.0457)}
PAPER_SIMILAR |= {16: (0.7200, 0.0411), 32: (0.7360, 0.0364), 64: (0.8032, 0.0151)}
# GT-Tau-Mean-64, GT-Tau-Std-64, mean and deviation of accuracy of Table 4, by the number of shared cells.
PAPER_LONG = {0: (0.6960, 0.0129, 0.7793), 1: (0.4837, 0.0939, 0.7691), 2: (0.4159, 0.1925, 0.6972)}
PAPER_LONG |= {3: (0.4448, 0.1881, 0.6636), 4: (0.5174, 0.1592, 0.6639)}
PAPER_SHORT = {0: (0.0441, 0.0145, 0.6083), 1: (0.3895, 0.0989, 0.6435), 2: (0.4104, 0.1801, 0.6035)}
PAPER_SHORT |= {3: (0.4545, 0.1570, 0.6081), 4: (0.4899, 0.1622, 0.6177)}


def table_3a(workspace: Workspace, preset_name: str) -> Outcome:
    """Group sharing: children grouped at random, by similarity, and by measured interference."""
    preset = PRESETS[preset_name]
    taus: dict[tuple[str, int], np.ndarray[Any, Any]] = {}  # GT-Tau after each of the last steps, [instances, steps]
    groups: dict[tuple[str, int], set[frozenset[str]]] = {}
    for grouping in ("random", "similar", "interference"):
        for num_groups in preset.num_groups if grouping != "interference" else preset.interference_groups:
            key = (grouping, num_groups) if num_groups > 1 else ("similar", 1)
            if key not in taus:
                result = _group_run(workspace, preset, *key)
                taus[key] = np.asarray(result["over_time"]["steps"])
                groups[key] = {frozenset(group) for group in result["groups"] or []}
    taus["random", 1] = taus["similar", 1]
    generator = numpy_generator(workspace.seed, "table-3a")
    rows: list[list[Any]] = []
    for num_groups in preset.num_groups:
        row: list[Any] = [num_groups]
        for grouping, paper in (("random", PAPER_RANDOM), ("similar", PAPER_SIMILAR), ("interference", {})):
            found = taus.get((grouping, num_groups))
            mean = None if found is None else mean_interval(found.mean(axis=1), generator=generator)
            row += [*([paper[num_groups][0]] if paper else []), mean]
            row.append(None if found is None else float(found.std(axis=1).mean()))
        rows.append(row)
    columns = ["groups", "paper: random", "ours: random", "its deviation", "paper: similar", "ours: similar"]
    columns += ["its deviation ", "ours: interference", "its deviation  "]
    title = f"Table 3a: GT-Tau, mean over the last {preset.group_steps} mini-batches (95 % interval over instances)"
    table = Table(columns, rows, title=title)
    claim = judge_d7(_group_figures(preset, taus))
    return Outcome("Deeper insights, Table 3a", [table], [claim], _interference_notes(taus, groups)).kept(
        workspace.results
    )


def table_3b(workspace: Workspace, preset_name: str) -> Outcome:
    """Prefix sharing, trained long: Table 3b is the upper half of Table 4."""
    preset = PRESETS[preset_name]
    found = {k: _prefix_run(workspace, preset, k, preset.long_epochs) for k in preset.shared_cells}
    rows: list[list[Any]] = [
        [k, *PAPER_LONG[k][:2], *_prefix_row(workspace, result)[:2]] for k, result in found.items()
    ]
    columns = ["shared cells", "paper: mean", "paper: deviation", "ours: mean", "ours: deviation"]
    table = Table(columns, rows, title=f"Table 3b: prefix sharing, {preset.long_epochs} epochs")
    return Outcome("Deeper insights, Table 3b", [table])


def table_4(workspace: Workspace, preset_name: str) -> Outcome:
    """Prefix sharing, trained long and short."""
    preset = PRESETS[preset_name]
    rows: list[list[Any]] = []
    taus: dict[tuple[int, int], Floats] = {}  # [instances]
    for epochs, paper in ((preset.long_epochs, PAPER_LONG), (preset.short_epochs, PAPER_SHORT)):
        for k in preset.shared_cells:
            result = _prefix_run(workspace, preset, k, epochs)
            mean, deviation, accuracy = _prefix_row(workspace, result)
            taus[epochs, k] = np.asarray(result["over_time"]["steps"]).mean(axis=1)
            rows.append([epochs, k, *paper[k][:2], mean, deviation, paper[k][2], accuracy])
    columns: list[Column | str] = [
        "epochs",
        "shared cells",
        "paper: mean",
        "paper: deviation",
        "ours: mean",
        "ours: deviation",
    ]
    columns += [Column("paper: accuracy", percent), Column("ours: accuracy", percent)]
    table = Table(columns, rows, title=f"Table 4: GT-Tau over the last {preset.group_steps} mini-batches")
    long, short = (
        {k: taus[epochs, k] for k in preset.shared_cells} for epochs in (preset.long_epochs, preset.short_epochs)
    )
    claim = judge_d8(
        D8Figures(
            command=f"ramet reproduce deeper-insights/table-4 --preset {preset.name}",
            setting=f"{preset.note} Long is {preset.long_epochs} epochs, short {preset.short_epochs}. With k = 0 a "
            f"child learns from its own mini-batches alone: {preset.long_epochs / 64:.3g} epochs of them in the long "
            f"training, where a child alone takes {preset.settings.epochs}, and the paper's long training has 31.",
            long=long,
            short=short,
        )
    )
    return Outcome("Deeper insights, Table 4", [table], [claim]).kept(workspace.results)


def figure_6(workspace: Workspace, preset_name: str) -> Outcome:
    """One random group: which of its children rise and fall together."""
    preset = PRESETS[preset_name]
    num_groups = max(preset.num_groups) if 16 not in preset.num_groups else 16
    result = _group_run(workspace, preset, "random", num_groups)
    group = result["groups"][0]
    places = [result["children"].index(child) for child in group]
    truth = np.asarray(result["truth"]["mean"])[places]
    scores = np.asarray(result["accuracy"]["averaged"])[:, places].mean(axis=0)
    rows = [[child, float(t), float(s)] for child, t, s in zip(group, truth, scores, strict=True)]
    columns: list[Column | str] = ["child", Column("alone", percent), Column("in its group", percent)]
    within = [_within_group(result, members) for members in result["groups"]]
    table = Table(columns, rows, title=f"Figure 6: a random group of {len(group)} children")
    defined = [tau for tau in within if tau == tau]
    inside = f"{np.mean(defined):.2f}" if defined else "undefined"
    notes = [f"GT-Tau within a group, the mean of the {len(within)} groups: {inside} (paper: 0.26)."]
    return Outcome("Deeper insights, Figure 6", [table], [], notes)


def _group_run(workspace: Workspace, preset: SharingPreset, grouping: str, num_groups: int) -> Json:
    sharing = "full" if num_groups == 1 else f"groups:{num_groups}:{grouping}"
    plan = {"varied": "both", "order": "shuffled", "sharing": sharing, "last_steps": preset.group_steps}
    name = f"deeper-insights-{preset.name}/groups-{num_groups}-{grouping}"
    return workspace.diagnose(name, preset.job(workspace, supernet_epochs=preset.group_epochs, **plan))


def _prefix_run(workspace: Workspace, preset: SharingPreset, num_shared_cells: int, epochs: int) -> Json:
    plan = {"varied": "both", "order": "shuffled", "last_steps": preset.group_steps}
    name = f"deeper-insights-{preset.name}/prefix-{num_shared_cells}-epochs-{epochs}"
    job = preset.job(workspace, supernet_epochs=epochs, sharing=f"prefix:{num_shared_cells}", **plan)
    return workspace.diagnose(name, job)


def _prefix_row(workspace: Workspace, result: Json) -> tuple[Estimate, float, float]:
    taus = np.asarray(result["over_time"]["steps"])
    mean = mean_interval(taus.mean(axis=1), generator=numpy_generator(workspace.seed, "prefix"))
    return mean, float(taus.std(axis=1).mean()), result["accuracy"]["mean"]


def _group_figures(preset: SharingPreset, taus: dict[tuple[str, int], np.ndarray[Any, Any]]) -> D7Figures:
    """D7 at 16 groups, or the most that the preset has."""
    at = 16 if 16 in preset.num_groups else max(preset.num_groups)
    return D7Figures(
        command=f"ramet reproduce deeper-insights/table-3a --preset {preset.name}",
        setting=f"{preset.note} Each group trains {preset.group_epochs} epochs; full sharing has {at} times fewer "
        "mini-batches in all.",
        full=taus["similar", 1].mean(axis=1),
        random=taus["random", at].mean(axis=1),
        similar=taus["similar", at].mean(axis=1),
        groups=at,
    )


def _interference_notes(
    taus: dict[tuple[str, int], np.ndarray[Any, Any]], groups: dict[tuple[str, int], set[frozenset[str]]]
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


def _within_group(result: Json, members: list[str]) -> float:
    places = [result["children"].index(child) for child in members]
    truth = np.asarray(result["truth"]["mean"])[places]
    last = np.asarray(result["accuracy"]["last"])[:, places]
    taus = rank_correlations(last, truth[None])
    defined = taus[~np.isnan(taus)]  # children that all score the same have no order
    return float(defined.mean()) if len(defined) else float("nan")
