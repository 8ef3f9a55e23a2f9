"""A recipe of your own: how networks are trained.

Try it:  ramet grow --recipe recipe.py:recipe --network mlp:16,16 --budget neurons=48,step=8 --epochs 3

Every command takes it; an option that you write on the command line wins over what is set here, and what is left out
stays the command's own. `ramet list schedule`, `loss` and `augmentation` name what is built in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ramet.training import Recipe


def recipe(learning_rate: float = 0.01) -> Recipe:
    """AdamW with a schedule and an augmentation of your own; ``--recipe recipe.py:recipe:learning_rate=0.002``."""
    return Recipe(
        optimizer="adamw",
        learning_rate=learning_rate,
        weight_decay=0.01,
        schedule=schedule,
        augment=augment,
        loss="cross-entropy:smoothing=0.1",
    )


def schedule(step: int, num_steps: int) -> float:
    """The share of the learning rate in a step: a straight line down to a tenth."""
    return 1.0 - 0.9 * step / max(num_steps, 1)


def augment(x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A batch with a little noise; whatever is drawn comes from the generator, so that a killed run can go on."""
    noise = torch.randn(x.shape, generator=generator, device=generator.device).to(x)
    return x + 0.05 * noise, y
