"""What becomes of each block of a trained network when parameters are limited: shared, adapted or the task's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Choice = Literal["share", "adapt", "own"]

ORDER: tuple[Choice, ...] = ("share", "adapt", "own")


def choose_within(conflicts: Sequence[float], sizes: Sequence[tuple[int, int, int]], limit: float) -> list[Choice]:
    """For each block whether it is shared, adapted or the task's own, so that parameters go where conflict is.

    Adapters come first, also beside blocks without conflict: they are worth most for their parameters in a trained
    network (docs/decisions/038). What is left makes adapted blocks that conflict the task's own. Each time the change
    comes first that answers for most conflict with each parameter it adds; what does not fit any more is passed over.

    Args:
        conflicts: what each block answers for, not negative.
        sizes: the parameters that a task adds if it shares the block (its batch norms), adapts it, or has its own.
        limit: the parameters that the task may add.

    >>> choose_within([0.5, 0.5, 0.0], [(0, 10, 100), (0, 30, 300), (0, 10, 100)], limit=140)
    ['own', 'adapt', 'adapt']
    """
    chosen: list[Choice] = ["share"] * len(conflicts)
    spent = sum(size[0] for size in sizes)

    def extra(place: int, choice: Choice) -> int:
        return sizes[place][ORDER.index(choice)] - sizes[place][ORDER.index(chosen[place])]

    def spend(changes: dict[int, Choice]) -> None:
        nonlocal spent
        added = {place: extra(place, choice) for place, choice in changes.items()}
        for place in sorted(added, key=lambda place: (-conflicts[place] / max(added[place], 1), added[place])):
            if spent + added[place] <= limit:
                chosen[place] = changes[place]
                spent += added[place]

    # A block that is no larger than its adapter is copied at once.
    spend({place: "adapt" if adapted < own else "own" for place, (_, adapted, own) in enumerate(sizes)})
    spend({place: "own" for place, now in enumerate(chosen) if now == "adapt" and conflicts[place] > 0})
    return chosen
