"""What becomes of each block of a trained network when parameters are limited: shared, adapted or the task's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Choice = Literal["share", "adapt", "own"]

ADAPTED = 0.8
"""The part of a block's conflict that an adapter is taken to remove: less than all, at a fraction of the parameters."""


def choose_within(conflicts: Sequence[float], sizes: Sequence[tuple[int, int, int]], limit: float) -> list[Choice]:
    """For each block whether it is shared, adapted or the task's own, so that parameters go where conflict is.

    Greedily, the change that removes most conflict for each parameter it adds, as long as one fits: an adapter removes
    ``ADAPTED`` of a block's conflict, a block of one's own all of it. A block without conflict is shared.

    Args:
        conflicts: what each block answers for, not negative.
        sizes: the parameters that a task adds if it shares the block (its batch norms), adapts it, or has its own.
        limit: the parameters that the task may add.

    >>> choose_within([0.5, 0.5, 0.0], [(0, 10, 100), (0, 30, 300), (0, 10, 100)], limit=140)
    ['own', 'adapt', 'share']
    """
    removed: dict[Choice, float] = {"share": 0.0, "adapt": ADAPTED, "own": 1.0}
    order: list[Choice] = ["share", "adapt", "own"]
    chosen: list[Choice] = ["share"] * len(conflicts)
    spent = sum(size[0] for size in sizes)
    while True:
        best: tuple[float, int, Choice] | None = None
        for place, now in enumerate(chosen):
            for choice in order[order.index(now) + 1 :]:
                gain = (removed[choice] - removed[now]) * conflicts[place]
                extra = sizes[place][order.index(choice)] - sizes[place][order.index(now)]
                if gain <= 0 or spent + extra > limit:
                    continue
                worth = gain / max(extra, 1)
                if best is None or worth > best[0]:
                    best = worth, place, choice
        if best is None:
            return chosen
        _, place, choice = best
        spent += sizes[place][order.index(choice)] - sizes[place][order.index(chosen[place])]
        chosen[place] = choice
