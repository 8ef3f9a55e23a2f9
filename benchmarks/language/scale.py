"""How large the language benchmark is: the one that is reported, and one for a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Shape = tuple[int, int, int]
"""Width, blocks and heads of a language model."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes and lengths of all three parts.

    Attributes:
        small, large: the network before and after it has grown; the large one is taught, too.
        windows: windows of text to train with; a round, and a training, is one pass over them.
        held_out: windows to validate and to test with, each.
        rates: the learning rates that are tried with the first seed, none of the judged ones.
        budget: what an architecture that is searched may have, in parameters.
        plan: how long a search is.
    """

    small: Shape = (32, 2, 4)
    large: Shape = (48, 4, 6)
    length: int = 32
    windows: int = 6400
    held_out: int = 500
    batch_size: int = 16
    rates: tuple[float, ...] = (3e-3, 6e-3, 12e-3)
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: int = 80_000
    plan: tuple[tuple[str, Any], ...] = (
        ("epochs", 8),
        ("warmup_epochs", 3),
        ("models_per_epoch", 8),
        ("batches_per_model", 8),
        ("strategy_steps", 6),
        ("archs_per_step", 8),
        ("reward_samples", 32),
        ("error_samples", 16),
    )


TINY = Scale(
    small=(8, 1, 2),
    large=(12, 2, 3),
    length=16,
    windows=32,
    held_out=8,
    batch_size=8,
    rates=(1e-2,),
    seeds=(0,),
    budget=20_000,
    plan=(
        ("epochs", 2),
        ("warmup_epochs", 1),
        ("models_per_epoch", 2),
        ("batches_per_model", 2),
        ("strategy_steps", 1),
    ),
)
"""Seconds on a laptop; its figures mean nothing."""
TUNING_SEED = 100
