"""What each part of the tour measures: everything that its sentence and its picture are made from."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, kw_only=True)
class RankedBy:
    """A ranking's correlation with the truth and its 95 % interval; whether it needs no training."""

    name: str
    value: float
    low: float
    high: float
    trivial: bool


@dataclass(frozen=True, kw_only=True)
class JudgedFigures:
    """A supernet judged.

    Attributes:
        children: how many were ranked.
        reliability: the correlation between halves of the truth's seeds.
        rankings: every one of them.
        last: the name of the ranking that a supernet gives without further thought.
        best: the name of the best one by shared weights.
        trivial: the name of the best one that needs no training.
        gain: what the best has over ``trivial``; ``gain_low`` and ``gain_high`` are its interval.
    """

    children: int
    reliability: float | None
    rankings: list[RankedBy]
    last: str
    best: str
    trivial: str
    gain: float
    gain_low: float
    gain_high: float

    def ranking(self, name: str) -> RankedBy:
        """The ranking of a name."""
        return next(ranking for ranking in self.rankings if ranking.name == name)


@dataclass(frozen=True, kw_only=True)
class TrueChild:
    """A child: its size, and its truth, the mean test accuracy of several trainings alone."""

    name: str
    parameters: int
    flops: int
    truth: float


@dataclass(frozen=True, kw_only=True)
class FoundFigures:
    """The best child found in stages, beside what needs no search.

    Attributes:
        children: all whose truth is known.
        found: the name of the one that was found.
        largest: the name of the largest.
        noise: how far two truths must differ to be told apart: twice the standard error of a difference.
        work: what the search trained, as a share of training each child of the space once.
        stages: what each stage looked at, in words.
    """

    children: list[TrueChild]
    found: str
    largest: str
    noise: float
    work: float
    stages: list[str]

    def child(self, name: str) -> TrueChild | None:
        """The child of a name; none if its truth is not known, as on a quick tour."""
        return next((child for child in self.children if child.name == name), None)

    @property
    def mean(self) -> float:
        """What a random choice gives on average."""
        return fmean(child.truth for child in self.children)

    def rank(self, name: str) -> int | None:
        """The true rank of a child, 1 for the best."""
        child = self.child(name)
        return None if child is None else 1 + sum(other.truth > child.truth for other in self.children)


@dataclass(frozen=True, kw_only=True)
class PlainFigures:
    """A network that did not grow: its size, the steps that it was trained for, and how good it is."""

    parameters: int
    steps: int
    validation: float
    test: float


@dataclass(frozen=True, kw_only=True)
class GrownPair:
    """A growth, and two networks that had its work: multiply-adds of training and growing.

    Attributes:
        parameters: after each growth, the first before any.
        validation: the accuracy on validation images there.
        test: of the grown network, on test images.
        plain: of its size from the beginning, in the start's proportions.
        start: as small as the network was that grew.
    """

    seed: int
    parameters: list[int]
    validation: list[float]
    test: float
    plain: PlainFigures
    start: PlainFigures


@dataclass(frozen=True, kw_only=True)
class GrownFigures:
    """Networks grown, beside plain ones."""

    pairs: list[GrownPair]


@dataclass(frozen=True, kw_only=True)
class LearnedBy:
    """How a method learned a stream of tasks, the mean over streams.

    Attributes:
        kept: the accuracy over the tasks so far, after each task.
        first: the accuracy on the first task, after each task.
        forgetting: what is lost of each task since it was learned, on average over tasks.
        parameters: at the end.
    """

    method: str
    kept: list[float]
    first: list[float]
    forgetting: float
    parameters: float


@dataclass(frozen=True, kw_only=True)
class LearnedFigures:
    """Tasks learned one after the other: by growing, by naive training, and by a network for each."""

    tasks: list[str]
    streams: int
    growing: LearnedBy
    naive: LearnedBy
    apart: LearnedBy


@dataclass(frozen=True, kw_only=True)
class LoopFigures:
    """A plain loop over two tasks, with a guard or without: test accuracies after each epoch."""

    old: list[float]
    new: list[float]


@dataclass(frozen=True, kw_only=True)
class GuardedFigures:
    """Plain loops with and without a guard, a pair a seed.

    Attributes:
        guard: what guarded, as Python writes it.
        epochs: of each task; the second begins after so many.
    """

    guard: str
    epochs: int
    guarded: list[LoopFigures]
    free: list[LoopFigures]

    @property
    def learned(self) -> float:
        """The accuracy on the old task when it was learned, the mean over seeds."""
        return fmean(loop.old[self.epochs - 1] for loop in self.free)

    def end(self, *, guarded: bool, old: bool) -> float:
        """The accuracy on a task at the end, the mean over seeds."""
        return fmean((loop.old if old else loop.new)[-1] for loop in (self.guarded if guarded else self.free))
