"""How much each part of the tour does: enough for a verdict, or the whole way in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TourSizes:
    """How much each part of the tour does.

    Args:
        train_size: training images; all if none.
        truth_epochs: epochs of each child alone.
        truth_seeds: trainings of each child.
        children: children that are scored; all if none.
        instances: supernets that are trained.
        supernet_epochs: epochs of each. A mini-batch trains one child of 64, so that they are many.
        evaluations: short trainings that the search may spend.
        short_epochs: epochs of each.
        growths: growths, each with a seed and with other networks beside it.
        start_width: the width of the network before it grows.
        grown_parameters: its parameters when it is grown.
        grow_epochs: what a growth is worth, in epochs of its final size.
        streams: streams of tasks, each with a seed of its own.
        task_epochs: epochs of a task.
        loops: plain loops with a guard and as many without.
        loop_epochs: epochs of each of their two tasks.
    """

    train_size: int | None = None
    truth_epochs: int = 6
    truth_seeds: int = 3
    children: int | None = None
    instances: int = 2
    supernet_epochs: int = 80
    evaluations: int = 32
    short_epochs: float = 2.0
    growths: int = 3
    start_width: int = 2
    grown_parameters: int = 3000
    grow_epochs: int = 6
    streams: int = 2
    task_epochs: int = 10
    loops: int = 3
    loop_epochs: int = 8


WHOLE = TourSizes()
QUICK = TourSizes(
    train_size=200,
    truth_epochs=1,
    truth_seeds=2,
    children=6,
    instances=1,
    supernet_epochs=2,
    evaluations=8,
    growths=1,
    grown_parameters=600,
    grow_epochs=2,
    streams=1,
    task_epochs=1,
    loops=1,
    loop_epochs=2,
)
"""The whole way in seconds, too short for a verdict."""
