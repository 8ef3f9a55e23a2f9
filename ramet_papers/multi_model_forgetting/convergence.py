"""Figures 1 and 3: A while B is trained on its layers, by how many they share, and by guard and A's convergence."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.drops import final_drop, reduction_interval, worst_drop
from ramet.ranking.metrics import Floats
from ramet.reports import Column
from ramet.reports.formats import percent, significant
from ramet.runs.encoding import Json
from ramet_papers.experiment import Experiment, Outcome, Row, Trials, mean_of, tabled, values
from ramet_papers.multi_model_forgetting.judges import (
    LOOSE,
    LOOSE_COST,
    STRICT_COST,
    Drops,
    W1Figures,
    W2Figures,
    W3Figures,
    judge_w1,
    judge_w2,
    judge_w3,
)
from ramet_papers.multi_model_forgetting.presets import METHODS, PRESETS, ForgettingPreset
from ramet_papers.multi_model_forgetting.trials import compare_guards, share_layers, trial_seed, trials_of
from ramet_papers.multi_model_forgetting.two_models import FIRST_HIDDEN

SHARED = tuple(range(FIRST_HIDDEN + 1))


def figure_1(experiment: Experiment) -> Outcome:
    """Forgetting of A against the number of layers that B shares with it; claim W1."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    setup = preset.setup(workspace)
    seeds = [trial_seed(workspace.seed, "reported", number) for number in range(preset.seeds)]
    tasks = {
        (layers, head): [
            WorkItem(
                f"shared-{layers}{'-and-head' if head else ''}/seed-{number}",
                share_layers,
                {"seed": seed, "shared_layers": layers, "share_head": head},
            )
            for number, seed in enumerate(seeds)
        ]
        for layers, head in [*((layers, False) for layers in SHARED), (FIRST_HIDDEN, True)]
    }
    worst: list[Floats] = []  # [settings, seeds], in points
    rows: list[Row] = []
    results = trials_of(experiment, preset, setup, "figure-1").finish(tasks, "training A, then B")
    for (layers, head), found in results.items():
        curves = values(found, "first")  # [seeds, measurements]
        worst.append(100 * worst_drop(curves))
        rows.append(
            {
                "shared hidden layers": f"{layers} and the head" if head else str(layers),
                "A before, %": 100 * float(curves[:, 0].mean()),
                "A's worst drop, points": experiment.mean(worst[-1]),
                "final drop, points": experiment.mean(100 * final_drop(curves)),
                "B in the end, %": 100 * mean_of(found, "second"),
            }
        )
    table = tabled(rows, "Figure 1: A while B is trained, by the layers that they share")
    figures = W1Figures(
        command=experiment.command,
        setting=preset.setting(setup),
        shared=SHARED,
        worst=np.array(worst[: len(SHARED)]),
        with_head=worst[-1],
    )
    return Outcome("Multi-model forgetting, Figure 1", [table], [judge_w1(figures)], [f"Data: {setup.data.name}."])


SAME_STRENGTH = "mini-batch Fisher, same strength"
"""Plasticity from the mini-batch gradient at the strength that was chosen for per-sample gradients."""

PAPER_REDUCTION = {1.0: "99 %", 0.55: "52 %", 0.43: "2 %"}
"""Section 4.1 and the caption of Figure 3, which gives up to 99.99 % at 55 % too."""


def figure_3(experiment: Experiment) -> Outcome:
    """Strict and loose convergence, and every guard at the strength that validation data chose; claims W2 and W3."""
    preset = PRESETS[experiment.preset_name]
    setup = preset.setup(experiment.workspace)
    trials = trials_of(experiment, preset, setup, "figure-3")
    levels = {share: _at_convergence(trials, preset, share) for share in preset.convergences}
    rows = [row for share, level in levels.items() for row in level.rows(experiment)]
    table = tabled(rows, f"Figure 3: A while B is trained, over {preset.seeds} seeds (test images)")
    asked = {"command": experiment.command, "setting": preset.setting(setup)}
    claims = [judge_w2(W2Figures(drops=levels[1.0].drops("plasticity"), **asked))] if 1.0 in levels else []
    loose = {share: level.drops("plasticity") for share, level in levels.items() if share < 1}
    claims += [judge_w3(W3Figures(levels=loose, **asked))] if LOOSE in loose else []
    notes = [
        f"Data: {setup.data.name}. Each strength was chosen on validation images and "
        f"{preset.tuning_seeds} other seeds, as the one with the least worst drop of A plus loss of B, of those with "
        f"which B loses at most {STRICT_COST:g} points ({LOOSE_COST:g} where A has not converged).",
        *[level.about_fisher() for level in levels.values()],
        *[level.about_kronecker(experiment) for level in levels.values()],
    ]
    return Outcome("Multi-model forgetting, Figure 3", [table], claims, notes)


class Level:
    """All guards at one convergence of A, over the reported seeds.

    Args:
        convergence: how far A was trained, as a share of its best accuracy.
        trials: the results of ``compare_guards``, one a seed, of the same guards in the same order.
    """

    def __init__(self, convergence: float, trials: list[Json]) -> None:
        self.convergence, self.strengths = convergence, dict[str, float]()
        self.before, self.worst, self.final, self.second = (dict[str, Floats]() for _ in range(4))
        for which, entry in enumerate(trials[0]["courses"]):
            name = SAME_STRENGTH if entry["guard"] in self.strengths else entry["guard"]
            curves = 100 * np.array([trial["courses"][which]["first"] for trial in trials])  # [seeds, measurements]
            self.strengths[name] = entry["strength"]
            self.before[name] = curves[:, 0]
            self.worst[name], self.final[name] = worst_drop(curves), final_drop(curves)
            self.second[name] = 100 * np.array([trial["courses"][which]["second"] for trial in trials])

    def drops(self, name: str) -> Drops:
        """What a guard is judged by."""
        return Drops(self.worst["none"], self.worst[name], self.second_gain(name))

    def second_gain(self, name: str) -> Floats:
        """How much better B is than unguarded, in points, a seed."""
        gain: Floats = self.second[name] - self.second["none"]
        return gain

    def rows(self, experiment: Experiment) -> list[Row]:
        """The rows of the table."""
        rows: list[Row] = []
        for name, strength in self.strengths.items():
            plain, worst = name == "none", self.worst[name]
            # Drawn for the unguarded row too, which does not show it: later intervals depend on every draw.
            removed = reduction_interval(self.worst["none"], worst, generator=experiment.generator)
            rows.append(
                {
                    "A trained to": "convergence" if self.convergence >= 1 else f"{self.convergence:.0%} of its best",
                    "guard": name,
                    Column("strength", significant): None if plain else strength,
                    "A before, %": float(self.before[name].mean()),
                    "A's worst drop, points": experiment.mean(worst),
                    "final drop, points": experiment.mean(self.final[name]),
                    "paper: removed": PAPER_REDUCTION.get(self.convergence) if name == "plasticity" else None,
                    Column("of the worst drop removed", percent): None if plain else removed,
                    "B in the end, %": float(self.second[name].mean()),
                    "B against unguarded, points": None if plain else experiment.mean(self.second_gain(name)),
                }
            )
        return rows

    def about_fisher(self) -> str:
        """What the estimate of the Fisher information changes, in a sentence."""
        per_sample, same, tuned = (
            f"{self.worst[name].mean():.1f}" for name in ("plasticity", SAME_STRENGTH, "plasticity, mini-batch Fisher")
        )
        return (
            f"Worst drop with A at {self.convergence:.0%}: {self.worst['none'].mean():.1f} points unguarded, "
            f"{per_sample} by plasticity from per-sample gradients, {same} from the mini-batch gradient at the same "
            f"strength and {tuned} at a strength of its own."
        )

    def about_kronecker(self, experiment: Experiment) -> str:
        """Whether the Kronecker-factored interaction term forgets less than the diagonal one, in a sentence."""
        diagonal, factored = (self.worst[name] for name in ("plasticity", "Kronecker plasticity"))
        less = experiment.mean(diagonal - factored)
        apart = less.low is not None and less.high is not None and not less.low <= 0 <= less.high
        verdict = "which cannot be told from 0" if not apart else "less" if (less.value or 0) > 0 else "more, not less"
        second = self.second["Kronecker plasticity"].mean() - self.second["plasticity"].mean()
        return (
            f"Kronecker factors instead of a diagonal, with A at {self.convergence:.0%}: a worst drop of "
            f"{factored.mean():.1f} instead of {diagonal.mean():.1f} points, a difference of {less.text()}, {verdict}; "
            f"B {second:+.1f} points."
        )


def _at_convergence(trials: Trials, preset: ForgettingPreset, share: float) -> Level:
    """Choose a strength for each guard, then measure them all on the reported seeds."""

    def compare(
        phase: Literal["tuning", "reported"], num_seeds: int, entries: list[list[Any]], label: str
    ) -> list[Json]:
        split = "validation" if phase == "tuning" else "test"
        asked: Json = {"convergence": share, "entries": entries, "split": split}
        tasks = []
        for number in range(num_seeds):
            seed = trial_seed(trials.workspace.seed, phase, number)
            key = f"{phase}/{share:g}/seed-{number}"
            tasks.append(WorkItem(key, compare_guards, {"seed": seed, **asked}, cost=len(entries)))
        return trials.in_order(tasks, f"{label}, A at {share:.0%}")

    grid = [[name, value] for name, method in METHODS.items() for value in method.strengths]
    affordable = (STRICT_COST if share >= 1 else LOOSE_COST) / 100
    chosen = choose_strengths(compare("tuning", preset.tuning_seeds, grid, "choosing strengths"), affordable)
    entries: list[list[Any]] = [[name, value] for name, value in chosen.items()]
    entries.append(["plasticity, mini-batch Fisher", chosen["plasticity"]])
    return Level(share, compare("reported", preset.seeds, entries, "comparing guards"))


def choose_strengths(trials: list[Json], affordable: float) -> dict[str, float]:
    """The strength of each guard that loses least: the worst drop of A plus what B ends below unguarded training.

    Both are accuracies, and count the same. Only strengths with which B loses no more than is ``affordable`` are
    taken, as the claims ask it, unless all of a guard cost more. Of equals the weakest is taken.

    Args:
        trials: the results of ``compare_guards`` on the same entries, one a seed.
        affordable: accuracy that B may lose.
    """
    entries = trials[0]["courses"]
    worst = np.array([[worst_drop(course["first"]) for course in trial["courses"]] for trial in trials]).mean(axis=0)
    second = np.array([[course["second"] for course in trial["courses"]] for trial in trials]).mean(axis=0)
    unguarded = next(value for entry, value in zip(entries, second, strict=True) if entry["guard"] == "none")
    costs = np.maximum(unguarded - second, 0.0)  # [entries]
    best: dict[str, tuple[bool, float, float]] = {}
    for entry, loss, cost in zip(entries, worst + costs, costs, strict=True):
        tried = (bool(cost > affordable), float(loss), entry["strength"])
        if entry["guard"] not in best or tried[:2] < best[entry["guard"]][:2]:
            best[entry["guard"]] = tried
    return {name: strength for name, (_, _, strength) in best.items()}
