"""Sequential fine-tuning: each task is trained on top of the last, and nothing is done against forgetting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ramet.continual.methods.shared_body import SharedBody


@dataclass(kw_only=True, eq=False)
class Naive(SharedBody):
    """The lower bound: shared layers, a head for each task, plain training."""

    name: ClassVar[str] = "naive"
