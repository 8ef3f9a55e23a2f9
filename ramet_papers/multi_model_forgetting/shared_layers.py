"""Figure 1: the more layers B shares with A, the more of A is lost while B is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.drops import final_drop, worst_drop
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats, rank_correlation
from ramet.reports import Table
from ramet.seeding import numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.multi_model_forgetting.presets import PRESETS
from ramet_papers.multi_model_forgetting.trials import open_run, run_tasks, share_layers, trial_seed
from ramet_papers.multi_model_forgetting.two_models import FIRST_HIDDEN
from ramet_papers.workspace import Outcome, Workspace

SHARED = tuple(range(FIRST_HIDDEN + 1))


def figure_1(workspace: Workspace, preset_name: str) -> Outcome:
    """Forgetting of A against the number of layers that B shares with it; claim W1."""
    preset = PRESETS[preset_name]
    setup = preset.setup(workspace)
    settings = [(layers, False) for layers in SHARED] + [(FIRST_HIDDEN, True)]
    tasks = [
        WorkItem(
            f"shared-{layers}{'-and-head' if head else ''}/seed-{number}",
            share_layers,
            {"seed": trial_seed(workspace.seed, "reported", number), "shared_layers": layers, "share_head": head},
        )
        for layers, head in settings
        for number in range(preset.seeds)
    ]
    with open_run(workspace, preset, setup, "figure-1") as run:
        results = run_tasks(workspace, run, tasks, setup, "training A, then B")

    curves = np.array([result["first"] for result in results]).reshape(len(settings), preset.seeds, -1)
    second = np.array([result["second"] for result in results]).reshape(len(settings), preset.seeds)
    worst, final = 100 * worst_drop(curves), 100 * final_drop(curves)  # [settings, seeds], in points
    generator = numpy_generator(workspace.seed, "figure-1")
    rows: list[list[Any]] = []
    for which, (layers, head) in enumerate(settings):
        drops = [mean_interval(values[which], generator=generator) for values in (worst, final)]
        name = f"{layers} and the head" if head else str(layers)
        rows.append([name, 100 * float(curves[which, :, 0].mean()), *drops, 100 * float(second[which].mean())])
    columns = ["shared hidden layers", "A before, %", "A's worst drop, points", "final drop, points", "B in the end, %"]
    table = Table(columns, rows, title="Figure 1: A while B is trained, by the layers that they share")

    own_heads = worst[: len(SHARED)]
    correlation, by_seed = rank_correlation(SHARED, own_heads.mean(axis=1)), _by_seed(own_heads)
    drops_by_layers = ", ".join(f"{value:.1f}" for value in own_heads.mean(axis=1))
    claim = Claim(
        id="W1",
        claim="Forgetting of A grows with the number of layers shared with B.",
        paper="Figure 1, no figure given",
        ours=f"rank correlation {correlation:.2f}; worst drops of {drops_by_layers} points",
        spread=f"single seeds from {by_seed.min():.2f} to {by_seed.max():.2f}, mean {by_seed.mean():.2f}",
        seeds=preset.seeds,
        holds=correlation > 0.8,
        command=f"ramet reproduce multi-model-forgetting/figure-1 --preset {preset.name}",
        note=f"{preset.setting(setup)} A keeps a head of its own; with a shared head too, the worst drop is "
        f"{worst[-1].mean():.1f} points.",
    )
    return Outcome("Multi-model forgetting, Figure 1", [table], [claim], [f"Data: {setup.data.name}."]).kept(
        workspace.results
    )


def _by_seed(worst: Floats) -> Floats:
    """The rank correlation of each seed; 0 for one in which nothing was forgotten at all."""
    taus: Floats = np.nan_to_num(np.array([rank_correlation(SHARED, drops) for drops in worst.T]))
    return taus
