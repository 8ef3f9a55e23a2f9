"""By which rule each claim is answered now: an answer by a former one is not today's answer.

A rule is what is measured and from when on a claim holds. Whoever changes one gives it the next number here; what
``claims.json`` holds from before is then shown as answered by a former rule, until its command has been run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RULES: Mapping[str, int] = {
    # A truth of its own, held-out seeds, controls and Student's intervals (decision 069).
    **dict.fromkeys(("D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9"), 2),
    # At equal multiply-adds as well as at equal parameters.
    **dict.fromkeys(("F3", "F4"), 2),
    # Firefly and CPG at equal size, over eight seeds.
    "F7": 2,
    # B1 against random growth of equal size for each task; B2 on the convolutional network; B3 by one coefficient.
    **dict.fromkeys(("B1", "B2", "B3"), 2),
}
"""The number of a claim's rule, where it is not the first."""


def rule_of(id: str) -> int:
    """The number of the rule by which a claim, or a part of one, is answered now.

    >>> rule_of("D9b"), rule_of("I5")
    (2, 1)
    """
    return RULES.get(id.rstrip("ab"), 1)


def is_former(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of ``claims.json`` was answered by a former rule."""
    return int(entry.get("rule", 1)) < rule_of(entry["id"])
