"""What a study gives: the Pareto front of grow sequences, all trials, and what to begin with."""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.continual.study.space import GrowSequence, SequenceSpace
from ramet.jobs.result import Result
from ramet.reports.metric import MetricFigures

CLOSE = 0.002
"""Gains this close to the highest, a fifth of a point, count as level with it when a smaller network is recommended.

Of a metric that is no share it is a fifth of a per cent of what individual networks have.
"""


@dataclass(frozen=True, kw_only=True)
class FinishedTrial:
    """A trial by its number: its gain over individual networks on validation data, its size, how it was learned."""

    trial: int
    gain: float
    parameters: int
    sequence: GrowSequence


@dataclass(frozen=True, kw_only=True)
class TrialPoint(FinishedTrial):
    """A trial among all; on the front if no other beats it in both gain and size."""

    on_front: bool


@dataclass(frozen=True, kw_only=True)
class FrontPoint(FinishedTrial):
    """A trial that no other beats in both gain and size. What needs its network is none where another run has it.

    Attributes:
        bound_to: the task that each was bound to.
        generation: of the population, counted from 0.
        test_gain: the gain on test data, measured once, at the end.
        test_accuracy: the mean accuracy on test data, or that of the study's metric.
        accuracies: of each task, on test data.
        explanation: why the network became what it is.
        file: the network, in the run directory.
    """

    bound_to: dict[str, str] | None
    generation: int
    test_gain: float | None = None
    test_accuracy: float | None = None
    accuracies: dict[str, float] | None = None
    explanation: list[str] | None = None
    file: str | None = None


@dataclass(frozen=True, kw_only=True)
class IndividualNetworks:
    """A network for each task: what gains are over. Accuracies are means of the study's metric."""

    parameters: int
    validation_accuracy: float
    test_accuracy: float


@dataclass(frozen=True, kw_only=True)
class StudyResult(Result):
    """How a stream is learned best.

    Attributes:
        num_trials: how many finished, of all runs of the study together.
        population: of NSGA-II; none for others.
        space: the sequences there are.
        front: the Pareto front, the smallest network first.
        alone: individual networks.
        metric: what tasks are measured by. Gains are above 0 where a network is better, whatever is better.
    """

    stream: str
    tasks: list[str]
    num_trials: int
    sampler: str
    population: int | None
    space: SequenceSpace
    front: list[FrontPoint]
    trials: list[TrialPoint]
    alone: IndividualNetworks
    metric: MetricFigures = field(default_factory=MetricFigures)

    @property
    def scale(self) -> float:
        """What gains are a share of: 1 for shares, and else what individual networks have."""
        return 1.0 if self.metric.is_share else abs(self.alone.validation_accuracy)

    @property
    def level(self) -> float:
        """Gains that differ by no more than this are level."""
        return CLOSE * self.scale

    @property
    def recommended(self) -> FrontPoint:
        """The point of the front to begin with: the smallest network whose gain is level with the highest."""
        highest = max(point.gain for point in self.front)
        level = [point for point in self.front if point.gain >= highest - self.level]
        return min(level, key=lambda point: point.parameters)

    @property
    def reaches_individual(self) -> bool:
        """Whether what is recommended is level with individual networks on validation data, or above them."""
        return self.recommended.gain >= -self.level

    def amount(self, gain: float) -> str:
        """A gain in words: points of a share, and the name of another metric."""
        words = self.metric.difference(gain)
        return words if self.metric.is_share else f"{words} of {self.metric.name}"

    def words(self) -> list[str]:
        """What to begin with, and where the report is."""
        point = self.recommended
        begin = f"Begin with trial {point.trial}: the smallest whose gain is level with the highest."
        if not self.reaches_individual:
            share = f"{point.parameters / self.alone.parameters:.0%} of their parameters"
            begin = (
                f"No trial reaches individual networks. Keep those, unless {share}, trial {point.trial}, is worth "
                f"{self.amount(-point.gain)} on validation data."
            )
        return [begin] if self.report is None else [begin, f"Report: {self.report}"]
