"""The numbers of a run for the tools of others: TensorBoard, MLflow, Weights & Biases, or a logger of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.runs.loggers.base import RunLogger
    from ramet.runs.loggers.mirror import Mirror, make_loggers

__all__ = ["LOGGERS", "Mirror", "RunLogger", "make_loggers"]

__getattr__ = lazy_front(__name__)

LOGGERS: Registry[RunLogger] = Registry(
    "logger",
    base="ramet.runs.loggers.base:RunLogger",
    group="ramet.loggers",
    built_in={
        "tensorboard": "ramet.runs.loggers.tensorboard:TensorBoardLogger",
        "mlflow": "ramet.runs.loggers.mlflow:MLflowLogger",
        "wandb": "ramet.runs.loggers.wandb:WandbLogger",
    },
)
"""Where the numbers of a run go besides its records."""
