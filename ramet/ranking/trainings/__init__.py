"""Ways to train a supernet, behind one seam: which children a step takes, and what it minimises over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.ranking.trainings.base import SupernetTraining, TrainingSize
    from ramet.ranking.trainings.by_path import ByPathTraining
    from ramet.ranking.trainings.driven import DrivenTraining, rank_last
    from ramet.ranking.trainings.fair import FairTraining
    from ramet.ranking.trainings.gradient_norms import GradientNormTraining
    from ramet.ranking.trainings.landmarks import LandmarkTraining
    from ramet.ranking.trainings.making import TrainingSource, make_training
    from ramet.ranking.trainings.sandwich import SandwichTraining
    from ramet.ranking.trainings.shrinking import ShrinkingTraining
    from ramet.ranking.trainings.single import SinglePath

__all__ = ["TRAININGS", "ByPathTraining", "DrivenTraining", "FairTraining", "GradientNormTraining", "LandmarkTraining"]
__all__ += ["SandwichTraining", "ShrinkingTraining", "SinglePath", "SupernetTraining", "TrainingSize", "TrainingSource"]
__all__ += ["make_training", "rank_last"]

__getattr__ = lazy_front(__name__)

TRAININGS: Registry[SupernetTraining] = Registry(
    "training",
    base="ramet.ranking.trainings.base:SupernetTraining",
    group="ramet.trainings",
    built_in={
        "uniform": "ramet.ranking.trainings.single:SinglePath",
        "fair": "ramet.ranking.trainings.fair:FairTraining",
        "sandwich": "ramet.ranking.trainings.sandwich:SandwichTraining",
        "by-path": "ramet.ranking.trainings.by_path:ByPathTraining",
        "landmarks": "ramet.ranking.trainings.landmarks:LandmarkTraining",
        "pada": "ramet.ranking.trainings.gradient_norms:GradientNormTraining",
        "shrinking": "ramet.ranking.trainings.shrinking:ShrinkingTraining",
    },
    given=("space", "seed"),
)
"""How a supernet is trained; made as ``maker(space, seed=seed)``."""
