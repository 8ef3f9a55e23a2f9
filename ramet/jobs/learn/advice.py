"""Which to take, in words: a method, or networks for each task alone of the same size and the same work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ramet.jobs.learn.result import LearnResult
from ramet.ranking.intervals import t_interval

ENOUGH = 3
"""From so many seeds on a difference has an interval."""

LEVEL_SHARE = 0.005
"""With fewer seeds, what counts as level: half a point of a share, half a per cent of another metric."""

Choice = Literal["method", "separate", "either"]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A method beside its control, and which of them to take.

    Attributes:
        method: the method.
        control: networks for each task alone, of the same work, and of the same parameters where there are such.
        difference: how much better the method is, the mean over seeds, in the metric; negative if it is worse.
        low: the lower end of the 95 % interval of that over seeds; none for fewer than three.
        high: its upper end.
    """

    method: str
    control: str
    difference: float
    low: float | None
    high: float | None
    choice: Choice


def judged(differences: list[float], level: float) -> tuple[Choice, float, float | None, float | None]:
    """What to take by a method's lead over its control, seed by seed, and that lead with its interval.

    From three seeds on the interval decides; with fewer, a mean within ``level`` is no lead.

    >>> judged([0.02, 0.03, 0.025], level=0.005)[0], judged([0.02], level=0.005)[0], judged([-0.001], level=0.005)[0]
    ('method', 'method', 'either')
    """
    mean, low, high = sum(differences) / len(differences), None, None
    if len(differences) >= ENOUGH:
        found = t_interval(differences)
        low, high = found.low, found.high
    at_least, at_most = (mean - level, mean + level) if low is None or high is None else (low, high)
    return "method" if at_least > 0 else "separate" if at_most < 0 else "either", mean, low, high


def advise(result: LearnResult) -> list[Advice]:
    """What to take for each method that has a control: of the same size and work, or else of the same work."""
    found: dict[str, Advice] = {}
    for control, method in result.controls_of.items():
        if method in found and not control.startswith("separate"):
            continue
        ours, theirs = (entry.figures.average_accuracy for entry in (result.methods[method], result.controls[control]))
        pairs = [
            result.metric.value(own) - result.metric.value(other)
            for own, other in zip(ours.values, theirs.values, strict=True)
            if own is not None and other is not None
        ]
        level = LEVEL_SHARE * (1.0 if result.metric.is_share else abs(theirs.known))
        choice, mean, low, high = judged(pairs, level)
        found[method] = Advice(method=method, control=control, difference=mean, low=low, high=high, choice=choice)
    return list(found.values())


def in_words(advice: Advice, result: LearnResult) -> str:
    """A sentence or two: which to take, and by how much."""
    metric = result.metric
    same = "of as many parameters and as much work" if advice.control.startswith("separate") else "of as much work"
    control = f"networks for each task alone {same}"

    def written(value: float) -> str:
        return f"{100 * value:+.1f}" if metric.is_share else f"{value:+.3g}"

    spread = "" if advice.low is None or advice.high is None else f" [{written(advice.low)}, {written(advice.high)}]"
    unit = " points" if metric.is_share else f" in {metric.name}"
    lead = f"{written(advice.difference)}{spread}{unit}"
    if advice.choice == "method":
        return f"Take {advice.method}: it is ahead of {control}, by {lead}."
    if advice.choice == "separate":
        return f"Take {control} instead of {advice.method}, which is behind them: {lead}."
    return f"{advice.method} and {control} are level ({lead}): either will do."
