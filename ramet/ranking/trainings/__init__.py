"""Ways to train a supernet, behind one seam: which children a step takes, and what it minimises over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.ranking.trainings.base import SupernetTraining
    from ramet.ranking.trainings.fair import FairTraining
    from ramet.ranking.trainings.making import TrainingSource, make_training
    from ramet.ranking.trainings.sandwich import SandwichTraining
    from ramet.ranking.trainings.single import SinglePath

__all__ = ["TRAININGS", "FairTraining", "SandwichTraining", "SinglePath", "SupernetTraining", "TrainingSource"]
__all__ += ["make_training"]

__getattr__ = lazy_front(__name__)

TRAININGS: Registry[SupernetTraining] = Registry(
    "training",
    base="ramet.ranking.trainings.base:SupernetTraining",
    group="ramet.trainings",
    built_in={
        "uniform": "ramet.ranking.trainings.single:SinglePath",
        "fair": "ramet.ranking.trainings.fair:FairTraining",
        "sandwich": "ramet.ranking.trainings.sandwich:SandwichTraining",
    },
    given=("space", "seed"),
)
"""How a supernet is trained; made as ``maker(space, seed=seed)``."""
