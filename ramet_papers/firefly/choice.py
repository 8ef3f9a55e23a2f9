"""How the paper chooses among candidates, where the method's own defaults are others (docs/decisions/042)."""

from __future__ import annotations

from typing import Literal, TypedDict


class ChoiceOptions(TypedDict):
    """Options of ``Firefly``."""

    steps: Literal["trained", "full"]
    apart: bool


PAPERS_CHOICE: ChoiceOptions = {"steps": "full", "apart": False}
"""All of epsilon against the sign of a score, and splits among all other candidates (Eq. 5)."""
