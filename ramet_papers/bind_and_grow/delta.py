"""Figure 6: the grow coefficient against size and accuracy."""

from __future__ import annotations

import numpy as np

from ramet_papers.bind_and_grow.judges import B2Figures, judge_b2
from ramet_papers.bind_and_grow.presets import PRESETS
from ramet_papers.bind_and_grow.trials import BindingTrials, grown
from ramet_papers.experiment import Experiment, Outcome, Row, mean_of, tabled, values


def figure_6(experiment: Experiment) -> Outcome:
    """Average gain and parameters by delta; claim B2."""
    preset = PRESETS[experiment.preset_name]
    trials = BindingTrials(experiment, preset, preset.traded, "figure-6", num_seeds=preset.traded_seeds)
    alone = trials.alone("split")
    tasks = {delta: (f"delta/{delta:g}", grown, {"delta": delta}) for delta in preset.deltas}
    results = trials.over_seeds(tasks, "growing at each delta", alone=alone)
    rows: list[Row] = [
        {
            "delta": delta,
            "parameters": int(mean_of(found, "parameters")),
            "average gain, test, points": experiment.mean(100 * values(found, "test_gain")),
            "validation, points": 100 * mean_of(found, "gain"),
            "test accuracy, %": 100 * mean_of(found, "test_accuracy"),
            "the paper's gain (less is better)": mean_of(found, "paper_gain"),
        }
        for delta, found in results.items()
    ]
    table = tabled(rows, f"Figure 6: {preset.traded.source}, {preset.traded_seeds} seeds")
    gain, test, parameters = (
        np.array([values(found, name) for found in results.values()]) for name in ("gain", "test_gain", "parameters")
    )  # [deltas, seeds] each
    said = {"command": experiment.command, "setting": preset.setting(preset.traded)}
    figures = B2Figures(deltas=preset.deltas, validation=gain, test=100 * test, parameters=parameters, **said)
    notes = ["The paper's gain sums relative errors, so that less is better; ours is a difference of accuracies."]
    return Outcome("Learn to bind and grow, Figure 6", [table], [judge_b2(figures)], notes)
