"""How anything is trained: recipes, one step, one saver, one readable loop. It knows neither supernets nor tasks."""

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.training.batches import Batches, read_ahead
    from ramet.training.evaluation import (
        EVALUATION_BATCH,
        accuracy,
        evaluating,
        in_batches,
        measure,
        reestimated_batch_norm,
        set_training,
        training_modes,
    )
    from ramet.training.loop import fit
    from ramet.training.metrics import Metric
    from ramet.training.optimizers import make_optimizer
    from ramet.training.outputs import output_of
    from ramet.training.recipe import Recipe, Settings
    from ramet.training.saver import SavedPart, Saver, SavesCheckpoints, Values, global_generators, saved_part
    from ramet.training.step import Held, Step, StepGuard
    from ramet.training.synchronised import SynchronisedNorms

__getattr__ = lazy_front(__name__)

__all__ = [
    "EVALUATION_BATCH",
    "Batches",
    "Held",
    "Metric",
    "Recipe",
    "SavedPart",
    "Saver",
    "SavesCheckpoints",
    "Settings",
]
__all__ += ["Step", "StepGuard", "SynchronisedNorms", "Values", "accuracy", "evaluating", "fit", "global_generators"]
__all__ += [
    "in_batches",
    "make_optimizer",
    "measure",
    "output_of",
    "read_ahead",
    "reestimated_batch_norm",
    "saved_part",
    "set_training",
    "training_modes",
]
