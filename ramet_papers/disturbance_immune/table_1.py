"""Table 1: the architecture that a projected search finds, against architectures drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ramet.jobs.data_options import TextOptions
from ramet.jobs.search import SearchJob
from ramet.reports import Table
from ramet.searching import FinalNetworkOptions, SearchPlan
from ramet.training import Recipe
from ramet_papers.disturbance_immune.judges import I6Figures, judge_i6
from ramet_papers.experiment import Experiment, Outcome
from ramet_papers.searches import GuardedSearches, enas, final_error, late_reward, train_random, tune_and_compare

# fmt: off
# The numbers of a plan are grouped by their subject: the supernet's training, the controller's, what is measured.
PRESETS: Mapping[str, GuardedSearches] = {
    "small": GuardedSearches(
        name="di-nas", guard="projection", seeds=6,
        strengths=(100.0, 1.0),  # of the projection's ridge: the smaller, the stronger
        job=SearchJob(
            space="darts:channels=4,num_cells=3,num_nodes=2", data="cifar10",
            data_options=TextOptions(image_size=8, train_size=4000, eval_size=2000, validation_fraction=0.5),
            recipe=Recipe(batch_size=64, learning_rate=0.1, weight_decay=3e-4, clip_norm=5.0),
            plan=SearchPlan(
                without_baselines=True,
                epochs=10, warmup_epochs=4, guard_warmup_epochs=0, models_per_epoch=70, batches_per_model=1,
                strategy=enas("disturbance-immune", learning_rate=3.5e-3), strategy_steps=40, archs_per_step=2,
                reward_samples=128, error_samples=300, measured_models=14, num_candidates=20,
                final_epochs=6, final_recipe="disturbance-immune:batch_size=64,augment=None",
            ),
        ),
    ),
    "paper": GuardedSearches(
        name="di-nas-paper", guard="projection", strengths=(1.0,), seeds=5,
        job=SearchJob(
            space="darts:channels=16,num_cells=8", data="cifar10",
            data_options=TextOptions(validation_fraction=0.6),
            recipe=Recipe(
                batch_size=128, learning_rate=0.1, schedule="constant", weight_decay=3e-4, clip_norm=5.0,
                augment="crop:4+flip",
            ),
            plan=SearchPlan(
                without_baselines=True,
                epochs=240, warmup_epochs=90, guard_warmup_epochs=0, models_per_epoch=156, batches_per_model=1,
                strategy=enas("disturbance-immune"), strategy_steps=234, archs_per_step=1,
                reward_samples=128, error_samples=1000, measured_models=31, num_candidates=100,
                final_epochs=600, final_recipe="disturbance-immune",
                final_network=FinalNetworkOptions(channels=43, cells=19),
            ),
        ),
    ),
}
# fmt: on


def table_1(experiment: Experiment) -> Outcome:
    """The found architecture trained alone, with projection and without, and the mean of random ones; claim I6.

    Algorithm 1 as written: the guard acts from the first update on, and the controller begins later. Section 5.1 gives
    search and final training learning rates of their own.
    """
    study, workspace = PRESETS[experiment.preset_name], experiment.workspace
    guard, _, pairs = tune_and_compare(workspace, study)
    random = 100 * (1 - train_random(workspace, study))  # accuracies, in percent
    found = 100 * (1 - np.array([[final_error(run) for run in pair] for pair in pairs]))  # [seeds, 2]
    late = [float(np.mean([late_reward(pair[side]) for pair in pairs])) for side in (0, 1)]
    rows: list[list[Any]] = [
        [f"random, mean of {len(random)}", experiment.mean(random), None, 96.71],
        ["search, no guard", experiment.mean(found[:, 0]), late[0], None],
        [f"search, {guard}", experiment.mean(found[:, 1]), late[1], 97.38],
    ]
    network = study.job.plan.final_network
    alone = "the size of the search, no cutout, no drop-path" if network.is_plain else str(network)
    figures = I6Figures(
        command=experiment.command,
        setting=f"{study.job.space} on cifar10 {study.job.data_options.given()}; guard {guard}. "
        f"Trained alone: {alone}.",
        found=found,
        random=random,
    )
    table = Table(["architecture", "test accuracy, %", "late reward", "paper"], rows, title="Table 1, small networks")
    return Outcome("Disturbance-immune, Table 1", [table], [judge_i6(figures)])
