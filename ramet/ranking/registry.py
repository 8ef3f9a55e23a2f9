"""Scores that need no training, by name; each is made as ``maker(network, x)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.ranking.training_free import TrainingFreeScore

SCORES: Registry[TrainingFreeScore] = Registry(
    "score",
    base="ramet.ranking.training_free:TrainingFreeScore",
    group="ramet.scores",
    built_in={
        "synflow": "ramet.ranking.training_free:Synflow.at",
        "jacobian": "ramet.ranking.training_free:JacobianCovariance",
    },
    given=("network", "x"),
)
"""What an untrained network says of itself."""
