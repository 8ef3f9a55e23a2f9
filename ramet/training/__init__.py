"""One readable training loop, its settings and its evaluation. It knows neither supernets nor tasks."""

from ramet.training.batch_norm import reestimated_batch_norm
from ramet.training.batches import Batches
from ramet.training.evaluation import EVALUATION_BATCH, accuracy, evaluating
from ramet.training.loop import StepGuard, fit, make_optimizer
from ramet.training.settings import Settings
from ramet.training.synchronised import SynchronisedNorms

__all__ = [
    "EVALUATION_BATCH",
    "Batches",
    "Settings",
    "StepGuard",
    "SynchronisedNorms",
    "accuracy",
    "evaluating",
    "fit",
    "make_optimizer",
    "reestimated_batch_norm",
]
