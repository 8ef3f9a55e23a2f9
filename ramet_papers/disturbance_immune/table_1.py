"""Table 1: the architecture that a projected search finds, against architectures drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ramet.ranking.intervals import mean_interval
from ramet.reports import Table
from ramet.searching import FinalRecipe, SearchJob, SearchPlan
from ramet.searching.strategies import EnasController
from ramet.seeding import numpy_generator
from ramet.training import Settings
from ramet_papers.disturbance_immune.judges import I6Figures, judge_i6
from ramet_papers.searches import GuardedSearches, final_error, late_reward, train_random, tune_and_compare
from ramet_papers.workspace import Outcome, Workspace

PRESETS: Mapping[str, GuardedSearches] = {
    "small": GuardedSearches(
        name="di-nas",
        guard="projection",
        strengths=(100.0, 1.0),  # of the projection's ridge: the smaller, the stronger
        job=SearchJob(
            space="darts",
            space_options={"channels": 4, "num_cells": 3, "num_nodes": 2},
            data="cifar10",
            data_options={"image_size": 8, "train_size": 4000, "eval_size": 1500, "validation_fraction": 0.5},
            settings=Settings(epochs=6, batch_size=64, learning_rate=0.1, weight_decay=3e-4, clip_norm=5.0),
            plan=SearchPlan(
                strategy_options=EnasController.PRESETS["disturbance-immune"] | {"learning_rate": 3.5e-3},
                epochs=10,
                warmup_epochs=4,
                models_per_epoch=70,
                batches_per_model=1,
                strategy_steps=40,
                archs_per_step=2,
                reward_samples=128,
                error_samples=300,
                num_candidates=20,
            ),
        ),
    ),
    "paper": GuardedSearches(
        name="di-nas-paper",
        guard="projection",
        strengths=(1.0,),
        seeds=5,
        job=SearchJob(
            space="darts",
            data="cifar10",
            data_options={"validation_fraction": 0.6},
            settings=Settings(epochs=600, batch_size=128, learning_rate=0.05, weight_decay=3e-4, clip_norm=5.0),
            plan=SearchPlan(
                strategy_options=EnasController.PRESETS["disturbance-immune"],
                epochs=240,
                warmup_epochs=90,
                models_per_epoch=156,
                batches_per_model=1,
                strategy_steps=234,
                archs_per_step=1,
                reward_samples=128,
                error_samples=1000,
                num_candidates=100,
                final_recipe=FinalRecipe(
                    channels=43, cells=19, auxiliary_weight=0.4, drop_path=0.2, cutout=16
                ).to_json(),
            ),
        ),
    ),
}


def table_1(workspace: Workspace, preset: str) -> Outcome:
    """The found architecture trained alone, with projection and without, and the mean of random ones; claim I6.

    Departs from the paper: the guard does not act in the warm-up, when the weights are still far from any model.
    """
    study = PRESETS[preset]
    guard, _, pairs = tune_and_compare(workspace, study)
    random = 100 * (1 - train_random(workspace, study))  # accuracies, in percent
    found = 100 * (1 - np.array([[final_error(run) for run in pair] for pair in pairs]))  # [seeds, 2]
    generator = numpy_generator(workspace.seed, "table-1")
    rows: list[list[Any]] = [
        [f"random, mean of {len(random)}", mean_interval(random, generator=generator), None, 96.71],
        ["search, no guard", mean_interval(found[:, 0], generator=generator), _reward(pairs, 0), None],
        [f"search, {guard}", mean_interval(found[:, 1], generator=generator), _reward(pairs, 1), 97.38],
    ]
    claim = judge_i6(
        I6Figures(
            command=f"ramet reproduce disturbance-immune/table-1 --preset {preset}",
            setting=f"darts {study.job.space_options} on cifar10 {study.job.data_options}; guard {guard}. "
            f"Trained alone: {study.job.plan.final_recipe or 'the size of the search, no cutout, no drop-path'}.",
            found=found,
            random=random,
        )
    )
    table = Table(["architecture", "test accuracy, %", "late reward", "paper"], rows, title="Table 1, small networks")
    return Outcome("Disturbance-immune, Table 1", [table], [claim]).kept(workspace.results)


def _reward(pairs: list[tuple[dict[str, Any], dict[str, Any]]], side: int) -> float:
    return float(np.mean([late_reward(pair[side]) for pair in pairs]))
