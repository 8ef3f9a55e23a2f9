"""How the paper chooses among candidates, where the method's own defaults are others (docs/decisions/042 and 059)."""

from __future__ import annotations

from typing import Literal, TypedDict


class ChoiceOptions(TypedDict):
    """Options of ``Firefly``."""

    steps: Literal["trained", "full"]
    apart: bool
    worth: Literal["gain", "params", "flops", "both"]
    step_share: float | None


PAPERS_CHOICE: ChoiceOptions = {"steps": "full", "apart": False, "worth": "gain", "step_share": None}
"""All of epsilon against the sign of a score, splits among all other candidates, whatever they cost (Eq. 5)."""
