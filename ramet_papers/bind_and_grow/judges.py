"""When the claims B1 to B3 hold: each verdict is a function of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ramet.continual.study.result import dominates
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Estimate
from ramet_papers.claims import Claim, Figures
from ramet_papers.verdicts import above, at_least, surely_positive

FIXED, TRIALS = 0.5, 40
"""B3: 40 trials dominate delta = 0.5."""


@dataclass(frozen=True)
class Guided:
    """Points of average gain by which growth by similarity is ahead of random growth; [seeds] each."""

    in_all: Floats  # with as many parameters in all tasks together
    for_each: Floats  # with as many parameters for each task


@dataclass(frozen=True, kw_only=True)
class B1Figures(Figures):
    """Figure 2, by the stream and its network; the first answers the claim."""

    paper: Mapping[str, Guided]  # by the paper's rule, which answers it
    own: Mapping[str, Guided]  # by this library's default
    anew: Floats  # the share of tasks that have a layer anew by the paper's rule, on the first; [layers]


def judge_b1(figures: B1Figures) -> Claim:
    """B1: at equal parameters for each task, interval apart."""
    first = next(iter(figures.paper))
    rules = (figures.paper, figures.own)
    decisive, own = (seed_interval(rule[first].for_each) for rule in rules)
    looser, looser_own = ({label: seed_interval(found.in_all) for label, found in rule.items()} for rule in rules)
    strict, strict_own = ({label: seed_interval(found.for_each) for label, found in rule.items()} for rule in rules)
    anew = ", ".join(f"{share:.0%}" for share in figures.anew)
    return figures.answer(
        "B1: Growth guided by similarity beats random growth at equal parameters.",
        paper="Figure 2, no figure given",
        ours=f"{decisive.value:+.2f} points of average gain with as many parameters for each task; {own.value:+.2f} by "
        "this library's default",
        spread=f"95 % interval {decisive.interval_text()} over seeds, {own.interval_text()}",
        seeds=len(figures.paper[first].for_each),
        # Random growth that has as many parameters in all may spend them on the wrong tasks: that would be credited to
        # similarity, which is asked for the right layers.
        parts={"surely ahead of random growth": surely_positive(decisive)},
        note=f"{figures.setting} Old layers train at a tenth of the rate, as in the paper. By the paper's conflict a "
        f"task has layer after layer anew in {anew} of the cases, because conflict rises with depth by itself. Points "
        f"by it, as many parameters for each task: {_listed(strict)}; as many in all: {_listed(looser)}. By the "
        f"default, linear CKA and what a layer adds to the one before it, for each task: {_listed(strict_own)}; in "
        f"all: {_listed(looser_own)}.",
    )


def _listed(intervals: Mapping[str, Estimate]) -> str:
    return "; ".join(f"{label} {_points(interval)}" for label, interval in intervals.items())


def _points(value: Estimate) -> str:
    return f"{value.value:+.2f} {value.interval_text()}"


@dataclass(frozen=True, kw_only=True)
class B2Figures(Figures):
    """Figure 6, by the grow coefficient; the last is the full expansion. [deltas, seeds] each."""

    deltas: tuple[float, ...]  # the grow coefficients
    validation: Floats  # the average gain on validation data, by which a coefficient is chosen
    test: Floats  # that on test data, in points, by which it is compared
    parameters: Floats  # of the network


def judge_b2(figures: B2Figures) -> Claim:
    """B2: the full expansion is dominated: a smaller one has fewer parameters and, beyond chance, more gain."""
    best = int(np.argmax(figures.validation[:-1].mean(axis=1)))
    ahead = seed_interval(figures.test[best] - figures.test[-1])
    saved = 1 - float(figures.parameters[best].mean() / figures.parameters[-1].mean())
    return figures.answer(
        "B2: Delta trades size for gain; the full expansion is dominated by a smaller one.",
        paper="balanced at 0.55, highest accuracy at 0.8, full expansion inferior in both",
        ours=f"delta {figures.deltas[best]:g} has {ahead.value:+.2f} points against the full expansion with "
        f"{saved:.0%} fewer parameters",
        spread=f"95 % interval {ahead.interval_text()} over seeds",
        seeds=figures.test.shape[1],
        # Beyond chance: a tie that saves 1 % dominates nothing.
        parts={"surely more gain": surely_positive(ahead), "fewer parameters": above(saved, 0.0)},
        note=f"Chosen on validation data, compared on test data. {figures.setting}",
    )


@dataclass(frozen=True)
class Point:
    """A grown network."""

    gain: float  # on validation data, as a share of 1
    parameters: float  # of the network
    test_gain: float  # on test data


@dataclass(frozen=True)
class Fronts:
    """What searches of one kind found on a stream, a seed."""

    fronts: Sequence[Sequence[Point]]  # the Pareto front of each seed
    fixed: Sequence[Point]  # the network of one coefficient for all tasks, of each seed

    @property
    def dominating(self) -> list[Point | None]:
        """For each seed the point with the most gain of those that dominate the fixed one on validation data."""
        chosen: list[Point | None] = []
        for front, fixed in zip(self.fronts, self.fixed, strict=True):
            better = [p for p in front if dominates((p.gain, p.parameters), (fixed.gain, fixed.parameters))]
            chosen.append(max(better, key=lambda point: point.gain) if better else None)
        return chosen

    @property
    def within(self) -> list[Point | None]:
        """For each seed the point with the most gain on validation data of those no larger than the fixed one."""
        chosen: list[Point | None] = []
        for front, fixed in zip(self.fronts, self.fixed, strict=True):
            fitting = [point for point in front if point.parameters <= fixed.parameters]
            chosen.append(max(fitting, key=lambda point: point.gain) if fitting else None)
        return chosen

    def ahead_of(self, other: Fronts) -> Floats:
        """Points of test gain by which the best within the fixed one's size is ahead of another search's; [seeds].

        A seed in which one of them found nothing so small is left out.
        """
        pairs = zip(self.within, other.within, strict=True)
        return np.array([100 * (a.test_gain - b.test_gain) for a, b in pairs if a is not None and b is not None])

    @property
    def _found(self) -> list[tuple[Point, Point]]:
        return [(point, fixed) for point, fixed in zip(self.dominating, self.fixed, strict=True) if point is not None]

    @property
    def tests(self) -> Floats:
        """Where a point dominates, points of test gain by which it is ahead; [seeds that have one]."""
        return np.array([100 * (point.test_gain - fixed.test_gain) for point, fixed in self._found])

    @property
    def saved(self) -> Floats:
        """And the share of parameters that it saves."""
        return np.array([1 - point.parameters / fixed.parameters for point, fixed in self._found])

    def text(self) -> str:
        """In words."""
        words = f"in {len(self.tests)} of {len(self.fixed)} seeds"
        if len(self.tests):
            words += f", on test data by {self.tests.mean():+z.2f} points with {self.saved.mean():.0%} fewer parameters"
        return words

    def spread(self) -> str:
        """How far seeds differ, in words."""
        if not len(self.tests):
            return "no dominating point"
        return f"test difference from {self.tests.min():+z.2f} to {self.tests.max():+z.2f} points"


@dataclass(frozen=True)
class StreamFronts:
    """The searches on one stream."""

    asked: Fronts  # as the paper has it: by its rule and NSGA-II, one coefficient for all tasks; answers the claim
    drawn: Fronts  # as many sequences by the paper's rule, drawn at random, a coefficient for each task
    taught: Fronts  # by the paper's rule and Thompson sampling, a coefficient for each task
    own: Fronts  # by this library's default rule and Thompson sampling, likewise
    about: str  # the stream, its network and its validation images, in words


@dataclass(frozen=True, kw_only=True)
class B3Figures(Figures):
    """The Pareto fronts of grow sequences."""

    streams: Sequence[StreamFronts]  # the first answers the claim
    trials: int  # of each search
    coefficient: float  # the fixed one


def judge_b3(figures: B3Figures) -> Claim:
    """B3: 40 trials dominate delta = 0.5, and are not behind as many random sequences.

    A search picks the luckiest of its trials on validation data: what it found must hold on test data too.
    """
    first, *others = figures.streams
    asked, chance = first.asked, first.asked.ahead_of(first.drawn)
    rules = {
        f"{TRIALS} trials are asked, and there are {figures.trials}": figures.trials == TRIALS,
        f"delta = {FIXED:g} is asked, and it is {figures.coefficient:g}": figures.coefficient == FIXED,
    }
    parts: dict[str, bool | None] = {"dominated in every seed": None not in asked.dominating}
    if len(asked.tests):
        parts["ahead on test data"] = at_least(float(asked.tests.mean()), 0.0)
    if len(chance):
        parts["not behind random sequences"] = at_least(float(chance.mean()), 0.0)
    elsewhere = "".join(f" On {other.about}: {_searched(other)}." for other in others)
    return figures.answer(
        "B3: The search over grow sequences recovers a Pareto front that dominates one coefficient for all tasks.",
        paper="20 trials; balanced at 0.55 with fewer than 10 M parameters",
        ours=f"delta {figures.coefficient:g} is dominated {_searched(first)}",
        spread=f"{asked.spread()}; {first.taught.spread()}; {first.own.spread()}",
        seeds=len(asked.fixed),
        parts=parts,
        rules=rules,
        note=f"{figures.setting}{elsewhere}",
    )


def _searched(stream: StreamFronts) -> str:
    """What each kind of search has found on a stream, in words."""
    chance = stream.asked.ahead_of(stream.drawn)
    ahead = f"{chance.mean():+z.2f} points" if len(chance) else "not comparable"
    return (
        f"{stream.asked.text()} ({ahead} against random sequences of its size); by random sequences "
        f"{stream.drawn.text()}; by Thompson sampling, a coefficient for each task, {stream.taught.text()}; the same "
        f"by this library's default rule {stream.own.text()}"
    )
