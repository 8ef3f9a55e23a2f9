"""How the networks of a stream are trained unless a user says otherwise; the same from Python and from commands."""

from __future__ import annotations

from dataclasses import dataclass

from ramet.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class LearnRecipe(Recipe):
    """How each task is trained; the defaults fit tasks of a few hundred small images.

    Args:
        epochs: passes over each task's training images.
        batch_size: images in a mini-batch.
        learning_rate: the first learning rate of the cosine schedule, which begins anew with each task.
        final_learning_rate: its last learning rate.
    """

    epochs: int = 10
    batch_size: int = 16
    learning_rate: float = 0.02
    final_learning_rate: float = 0.0
    momentum: float = 0.9
    weight_decay: float = 0.0
