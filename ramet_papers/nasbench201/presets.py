"""The settings of the judged searches: one for a CPU, and one of the benchmark's own size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.training import Settings
from ramet_papers.experiment import Preset, sgd


@dataclass(frozen=True, kw_only=True)
class TablePreset(Preset):
    """A setting."""

    space_options: Mapping[str, Any]  # of ``NasBench201``
    data: str = "cifar10"  # the data set
    data_options: Mapping[str, Any]  # of ``ramet.data.load``
    settings: Settings  # of the supernets; ``final_epochs`` replaces its epochs for a network that is trained alone
    # What the supernets are trained with, one set of supernets for each. Strengths are fixed beforehand.
    guards: tuple[str, ...] = ("none", "plasticity:1000:towards=mean", "projection:1")
    num_ranked: int  # architectures, drawn uniformly, over which rankings are compared with the table
    num_inputs: int  # images of the Jacobian's covariance
    num_free: int | None  # architectures, drawn uniformly, that get training-free scores; all of the space if none
    num_listed: int  # the best of them by the mean of both rankings, which the supernets then score
    num_queries: int  # architectures that a strategy may look at on a trained supernet
    strategy_options: Mapping[str, Mapping[str, Any]]  # of each strategy
    num_final: int  # architectures of the highest combined ranking that are trained alone
    final_epochs: int  # of each


# fmt: off
# The numbers are grouped by their subject: the space and its data, the supernets, what is scored, searches, the end.
PRESETS: dict[str, TablePreset] = {
    "small": TablePreset(
        space_options={"channels": 8, "cells_per_stage": 1},
        data_options={"image_size": 16, "train_size": 8000, "eval_size": 500},
        settings=sgd(40, 64, 0.05, 5e-4, final=0.001), seeds=2,
        num_ranked=500, num_inputs=32, num_free=None, num_listed=150,
        num_queries=150,
        strategy_options={
            "evolution": {"population_size": 30},
            "enas": {},
            "nao": {"num_seeds": 50, "num_starts": 20, "epochs": 60, "train_every": 50},
        },
        num_final=6, final_epochs=6,
    ),
    "paper": TablePreset(
        space_options={"channels": 16, "cells_per_stage": 5},
        data_options={"validation_fraction": 0.5, "eval_size": 5000},
        settings=Settings(epochs=250, batch_size=64, weight_decay=5e-4, clip_norm=5.0),
        num_ranked=1000, num_inputs=64, num_free=None, num_listed=500,
        num_queries=1000,
        strategy_options={"evolution": {"population_size": 100}, "nao": {"num_seeds": 300, "train_every": 100}},
        num_final=20, final_epochs=12,
    ),
}
# fmt: on
