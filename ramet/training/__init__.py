"""One readable training loop, its settings and its evaluation. It knows neither supernets nor tasks."""

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.training.batch_norm import reestimated_batch_norm
    from ramet.training.batches import Batches
    from ramet.training.evaluation import EVALUATION_BATCH, accuracy, evaluating
    from ramet.training.loop import StepGuard, fit, make_optimizer
    from ramet.training.recipe import Recipe, Settings
    from ramet.training.synchronised import SynchronisedNorms

__getattr__ = lazy_front(__name__)

__all__ = [
    "EVALUATION_BATCH",
    "Batches",
    "Recipe",
    "Settings",
    "StepGuard",
    "SynchronisedNorms",
    "accuracy",
    "evaluating",
    "fit",
    "make_optimizer",
    "reestimated_batch_norm",
]
