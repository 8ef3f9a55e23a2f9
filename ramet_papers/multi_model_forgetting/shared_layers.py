"""Figure 1: the more layers B shares with A, the more of A is lost while B is trained."""

from __future__ import annotations

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.drops import final_drop, worst_drop
from ramet.ranking.metrics import Floats
from ramet_papers.experiment import Experiment, Outcome, Row, mean_of, tabled, values
from ramet_papers.multi_model_forgetting.judges import W1Figures, judge_w1
from ramet_papers.multi_model_forgetting.presets import PRESETS
from ramet_papers.multi_model_forgetting.trials import share_layers, trial_seed, trials_of
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
    claim = judge_w1(
        W1Figures(
            command=experiment.command,
            setting=preset.setting(setup),
            shared=SHARED,
            worst=np.array(worst[: len(SHARED)]),
            with_head=worst[-1],
        )
    )
    return Outcome("Multi-model forgetting, Figure 1", [table], [claim], [f"Data: {setup.data.name}."])
