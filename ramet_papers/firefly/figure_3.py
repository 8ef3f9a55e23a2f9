"""Figures 3a and 3b: the toy of radial basis functions, grown by each method and with more and more new candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import significant
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.firefly.presets import PRESETS, FireflyPreset
from ramet_papers.firefly.rbf import RbfSettings, grow_rbf
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Outcome, Workspace

METHODS = {
    "firefly": "Firefly",
    "firefly-split": "Firefly (split)",
    "splitting": "Splitting",
    "random-split": "RandSearch (split)",
    "random": "RandSearch (split+new)",
    "scratch": "Scratch",
}
"""The methods of figure 3a, and what the paper calls them."""

PAPER_ENDS = {"firefly": "to zero", "random": "to zero", "splitting": "stuck", "firefly-split": "stuck",
              "random-split": "stuck"}  # fmt: skip
"""What section 3 says of each curve; it gives no figures."""

COMPARED_AT = 10
"""Neurons at which claims F1 and F2 compare losses."""

NEEDED_RATIO = 0.1
"""Firefly's loss over splitting's, at most (claim F1)."""

REPETITIONS_A_TASK = 10
"""True networks that one task trains together: a stack is quicker than one by one, a task is what may be lost."""


def grow_toy(context: None, *, method: str, num_new: int, settings: Json, repetitions: Sequence[int]) -> Json:
    """One method on some repetitions, as a task."""
    curves = grow_rbf(method, RbfSettings(**settings), num_new, repetitions)
    return {"losses": curves.tolist()}


def measure_curves(workspace: Workspace, preset: FireflyPreset, wanted: Sequence[tuple[str, int]]) -> list[Floats]:
    """The losses of methods with so many new candidates, each of shape [repetitions, sizes].

    Both figures keep them in one run, so that what they have in common is measured once.
    """
    config = {**asdict(preset.toy), "seed": workspace.seed}
    groups = [
        list(range(first, min(first + REPETITIONS_A_TASK, preset.toy.repetitions)))
        for first in range(0, preset.toy.repetitions, REPETITIONS_A_TASK)
    ]
    tasks = {
        (method, num_new): [
            WorkItem(
                f"{method}/new-{num_new}/repetitions-{group[0]}-{group[-1]}",
                grow_toy,
                {"method": method, "num_new": num_new, "settings": config, "repetitions": group},
            )
            for group in groups
        ]
        for method, num_new in wanted
    }
    path = workspace.runs / f"firefly-{preset.name}" / f"toy-{digest_of(config)}"
    with open_recorded(path, "reproduction", config) as run:
        every = [task for row in tasks.values() for task in row]
        found = finish_tasks(run, workspace.executor, every, None, label="growing the toy")
    return [np.concatenate([np.asarray(found[task.key]["losses"]) for task in tasks[key]]) for key in wanted]


def figure_3a(workspace: Workspace, preset_name: str) -> Outcome:
    """Mean training loss against the number of neurons for each method; claim F1."""
    preset = PRESETS[preset_name]
    wanted = [(name, preset.toy_candidates if name in ("firefly", "random") else 0) for name in METHODS]
    curves = dict(zip(METHODS, measure_curves(workspace, preset, wanted), strict=True))
    table = _table(
        {METHODS[name]: curve for name, curve in curves.items()},
        [PAPER_ENDS.get(name) for name in METHODS],
        f"Figure 3a: training loss, mean over {preset.toy.repetitions} true networks",
        numpy_generator(workspace.seed, "figure-3a"),
    )
    claim = claim_f1(curves, preset, numpy_generator(workspace.seed, "claim F1"))
    return Outcome("Firefly, Figure 3a", [table], [claim], [_setting(preset)]).kept(workspace.results)


def figure_3b(workspace: Workspace, preset_name: str) -> Outcome:
    """Firefly with different numbers of new candidates; claim F2."""
    preset = PRESETS[preset_name]
    counts = preset.toy_counts
    wanted = [("firefly" if count else "firefly-split", count) for count in counts]
    curves = dict(zip(counts, measure_curves(workspace, preset, wanted), strict=True))
    table = _table(
        {f"m' = {count}": curve for count, curve in curves.items()},
        ["stuck" if count == 0 else "saturated" if count == 5 else None for count in counts],
        f"Figure 3b: Firefly by its new candidates, training loss, mean over {preset.toy.repetitions} true networks",
        numpy_generator(workspace.seed, "figure-3b"),
    )
    claim = claim_f2(curves, preset, numpy_generator(workspace.seed, "claim F2"))
    return Outcome("Firefly, Figure 3b", [table], [claim], [_setting(preset)]).kept(workspace.results)


def _table(curves: Mapping[str, Floats], paper: list[str | None], title: str, generator: np.random.Generator) -> Table:
    rows: list[list[Any]] = []
    num_sizes = min(len(curve[0]) for curve in curves.values())
    sizes = [size for size in (1, 2, 3, 5, 8, 10, 12) if size <= num_sizes]
    for (name, curve), word in zip(curves.items(), paper, strict=True):
        means = [float(curve[:, size - 1].mean()) for size in sizes]
        at = curve[:, _place(curve)]
        interval = mean_interval(at, generator=generator).interval_text(significant)
        rows.append([name, word, *means, interval, float(np.median(at))])
    columns: list[Column | str] = ["method", "paper", *[Column(f"{size} neurons", significant) for size in sizes]]
    last = min(COMPARED_AT, num_sizes)
    return Table(
        [*columns, f"95 % interval at {last}", Column(f"median at {last}", significant)],
        rows,
        title=title,
    )


def _place(curve: Floats) -> int:
    return min(COMPARED_AT, int(curve.shape[1])) - 1


def claim_f1(curves: Mapping[str, Floats], preset: FireflyPreset, generator: np.random.Generator) -> Claim:
    """F1: at 10 neurons Firefly's mean loss is at most a tenth of splitting's, and below random search's.

    Args:
        curves: by the names of ``METHODS``, each of shape [repetitions, sizes].
        preset: that they were made under.
        generator: for the interval.
    """
    at = {name: curve[:, _place(curve)] for name, curve in curves.items()}
    means = {name: float(values.mean()) for name, values in at.items()}
    ratio = means["firefly"] / means["splitting"]
    gain = mean_interval(at["random"] - at["firefly"], generator=generator)
    rows = generator.integers(len(at["firefly"]), size=(2000, len(at["firefly"])))
    ratios = at["firefly"][rows].mean(axis=1) / at["splitting"][rows].mean(axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    wins = float((at["firefly"] < at["random"]).mean())
    whole = {name: float(_mean_over_sizes(curves[name]).mean()) for name in ("firefly", "random", "splitting")}
    return Claim(
        id="F1",
        claim="New neurons escape where splitting alone is stuck, and gradients choose better than chance.",
        paper="loss to zero with new neurons, stuck without (Figure 3a, no figures in the text)",
        ours=f"loss at {COMPARED_AT} neurons {means['firefly']:.2g} against {means['splitting']:.2g} by splitting "
        f"(ratio {ratio:.2g}) and {means['random']:.2g} by random search with the same candidates",
        spread=f"ratio {low:.2g} to {high:.2g}; random search minus Firefly {gain.interval_text(significant)}, "
        f"Firefly lower in {wins:.0%} of the networks (95 % intervals over true networks)",
        seeds=len(at["firefly"]),
        holds=bool(ratio <= NEEDED_RATIO and means["firefly"] < means["random"]),
        command=f"ramet reproduce firefly/figure-3a --preset {preset.name}",
        note=f"Mean loss from 2 to {COMPARED_AT} neurons: Firefly {whole['firefly']:.2g}, random search "
        f"{whole['random']:.2g}, splitting {whole['splitting']:.2g}. {_setting(preset)}",
    )


def claim_f2(curves: Mapping[int, Floats], preset: FireflyPreset, generator: np.random.Generator) -> Claim:
    """F2: one new candidate lowers the loss, and from five on more of them hardly change it.

    It holds if the mean loss over the sizes with one is below that with none, that with five is not above that with
    one, and going beyond five wins less than a tenth of what the first five won.

    Args:
        curves: by the number of new candidates, which has 0, 1 and 5 and more, each of shape [repetitions, sizes].
        preset: that they were made under.
        generator: for the interval.
    """
    at = {count: _mean_over_sizes(curve) for count, curve in curves.items()}
    means = {count: float(values.mean()) for count, values in at.items()}
    beyond = [means[count] for count in means if count > 5]
    first, further = means[0] - means[1], means[5] - min(beyond)
    gain = mean_interval(at[0] - at[1], generator=generator)
    listed = ", ".join(f"{mean:.2g} with {count}" for count, mean in means.items())
    last = ", ".join(f"{float(curve[:, _place(curve)].mean()):.2g} with {count}" for count, curve in curves.items())
    return Claim(
        id="F2",
        claim="A single new candidate helps already, and the gain is saturated near five.",
        paper="improves with one, saturated at m' = 5 (Figure 3b)",
        ours=f"mean loss from 2 to {COMPARED_AT} neurons: {listed}",
        spread=f"gain of the first {gain.text(significant)} (95 % interval over true networks)",
        seeds=len(at[0]),
        holds=bool(first > 0 and means[5] <= means[1] and further < 0.1 * (means[0] - means[5])),
        command=f"ramet reproduce firefly/figure-3b --preset {preset.name}",
        note=f"Judged by the curves' means, because at {COMPARED_AT} neurons all but the first are at the floor that "
        f"their training reaches, and one candidate is enough: {last}. That was decided after those figures were seen. "
        f"{_setting(preset)}",
    )


def _mean_over_sizes(curve: Floats) -> Floats:
    """The mean loss of each repetition over the grown networks, from two neurons on."""
    return np.asarray(curve[:, 1 : _place(curve) + 1].mean(axis=1))


def _setting(preset: FireflyPreset) -> str:
    toy = preset.toy
    return (
        f"{toy.repetitions} true networks of 15 neurons, 1,000 points, {toy.num_updates:,} updates between two growths "
        f"for every method, {toy.num_candidate_updates} more for the candidates of Firefly and of random search. "
        f"Adam {toy.learning_rate:g} annealed, epsilon {toy.epsilon:g}, chosen on other true networks; the paper names "
        "neither of the two."
    )
