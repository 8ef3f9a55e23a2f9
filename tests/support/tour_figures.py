"""Made-up figures of the tour, as it might measure them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ramet.jobs.tour.figures import (
    FoundFigures,
    GrownFigures,
    GrownPair,
    GuardedFigures,
    JudgedFigures,
    LearnedBy,
    LearnedFigures,
    LoopFigures,
    PlainFigures,
    RankedBy,
    TrueChild,
)
from ramet.jobs.tour.result import TourResult


def judged(**changes: Any) -> JudgedFigures:
    """A supernet that beats the number of parameters once its batch norm is re-estimated."""
    values = {"last evaluation": 0.2, "batch norm re-estimated": 0.7, "number of parameters": 0.5}
    rankings = [
        RankedBy(name=name, value=value, low=value - 0.1, high=value + 0.1, trivial=name.startswith("number"))
        for name, value in values.items()
    ]
    last, best, trivial = values
    made = JudgedFigures(
        children=4,
        reliability=0.8,
        rankings=rankings,
        last=last,
        best=best,
        trivial=trivial,
        gain=0.2,
        gain_low=0.05,
        gain_high=0.3,
    )
    return replace(made, **changes)


def found(truths: dict[str, float] | None = None, **changes: Any) -> FoundFigures:
    """A search that finds the best of four children."""
    truths = truths or {"a": 0.6, "b": 0.95, "c": 0.8, "d": 0.9}
    children = [
        TrueChild(name=name, parameters=100 * place, flops=1000 * place, truth=truth)
        for place, (name, truth) in enumerate(truths.items(), start=1)
    ]
    made = FoundFigures(children=children, found="b", largest="d", noise=0.02, work=0.18, stages=["short: trained"])
    return replace(made, **changes)


def grown(*tests: tuple[float, float]) -> GrownFigures:
    """Growths and their plain networks, by their test accuracies."""
    pairs = []
    for seed, (grown_test, plain_test) in enumerate(tests or ((0.95, 0.9), (0.96, 0.92))):
        plain = PlainFigures(parameters=310, steps=70, validation=0.9, test=plain_test)
        pairs.append(
            GrownPair(
                seed=seed,
                parameters=[100, 200, 300],
                validation=[0.3, 0.7, 0.94],
                test=grown_test,
                plain=plain,
                start=PlainFigures(parameters=100, steps=200, validation=0.6, test=0.62),
            )
        )
    return GrownFigures(pairs=pairs)


def learned(growing: float = 0.0, naive: float = 0.2) -> LearnedFigures:
    """Three tasks, by what each way forgets."""
    return LearnedFigures(
        tasks=["one", "two", "three"],
        streams=2,
        growing=_learned_by("firefly", growing, 2_700.0),
        naive=_learned_by("naive", naive, 2_100.0),
        apart=_learned_by("individual", 0.0, 8_800.0),
    )


def _learned_by(method: str, forgetting: float, parameters: float) -> LearnedBy:
    kept = [0.97, 0.97 - forgetting / 2, 0.97 - forgetting]
    return LearnedBy(method=method, kept=kept, first=kept, forgetting=forgetting, parameters=parameters)


def guarded(
    learned_to: float = 0.97, old: float = 0.95, new: float = 0.96, old_free: float = 0.7, new_free: float = 0.97
) -> GuardedFigures:
    """Two loops of two epochs a task, by what is left of the old task and what is learned of the new one."""

    def loop(left: float, reached: float) -> LoopFigures:
        return LoopFigures(old=[0.5, learned_to, left, left], new=[0.1, 0.1, 0.5, reached])

    return GuardedFigures(guard="Guard()", epochs=2, guarded=[loop(old, new)] * 2, free=[loop(old_free, new_free)] * 2)


def tour_result() -> TourResult:
    """All five parts."""
    return TourResult(
        seed=0, judged=judged(), found=found(), grown=grown(), learned=learned(), guarded=guarded(), quick=False
    )
