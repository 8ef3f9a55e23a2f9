"""What a diagnosis gives: every ranking against the truth and against the others, with intervals, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.jobs.result import Result
from ramet.reports.formats import Estimate
from ramet.reports.metric import MetricFigures
from ramet.reports.tables import Table
from ramet.runs.encoding import Json


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def estimate(self) -> Estimate:
        """For tables and charts."""
        return Estimate(self.value, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class PairwiseStability:
    """How alike two rankings are: Kendall's tau-b over all pairs."""

    mean: float
    lowest: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class StabilityFigures:
    """How alike rankings are over what should not matter; none where there is only one ranking.

    Attributes:
        instances: the supernets' last scores.
        instances_averaged: the mean of their last evaluations.
        instances_reestimated: with batch-norm statistics made anew.
        epochs: the last epochs of one instance, the median over instances.
        steps: the same over its last mini-batches.
        truth: seeds of the truth.
    """

    instances: PairwiseStability | None
    instances_averaged: PairwiseStability | None
    instances_reestimated: PairwiseStability | None
    epochs: float | None
    steps: float | None
    truth: PairwiseStability | None


@dataclass(frozen=True, kw_only=True)
class AccuracyFigures:
    """The metric with shared weights, by default accuracies; the lists are by instance, then child."""

    mean: float
    spread_of_children: float
    spread_over_steps: float
    spread_over_instances: float
    last: list[list[float]]
    averaged: list[list[float]]
    reestimated: list[list[float]]


@dataclass(frozen=True, kw_only=True)
class TrainedRanks:
    """The rank of the child that has just been trained, over so many steps."""

    steps: int
    median_rank: float | None = None
    share_in_best_quarter: float | None = None
    share_best: float | None = None


@dataclass(frozen=True, kw_only=True)
class RankDistributions:
    """The ranks that each child is given, by child."""

    over_instances: list[list[float]]
    over_epochs: list[list[float]]


@dataclass(frozen=True, kw_only=True)
class DisturbanceFigures:
    """The mean change of a score in a step: of the child that it trains, of the others, and who disturbs whom.

    Above 0 is better, also where lower values of the metric are. ``matrix`` is none where there are more than 512
    children.
    """

    matrix: list[list[float | None]] | None
    own: float
    others: float


@dataclass(frozen=True, kw_only=True)
class TruthFigures:
    """What the truth is, and how far it can be relied on; ``halves`` and ``one_seed`` have their intervals.

    ``seed_with_others`` is how one seed agrees with the mean of the others, ``smoothed_with_others`` how it does when
    smoothed over the space; none where there is one seed, or too few children to smooth.
    """

    seeds: int
    seeds_scores: list[list[float]]
    mean: list[float]
    deviation: list[float] | None
    reliability_of_one_seed: float | None
    reliability_of_halves: float | None
    reliability_of_mean: float | None
    spread: float
    noise: float | None
    halves: Interval | None = None
    one_seed: Interval | None = None
    seed_with_others: Interval | None = None
    smoothed_with_others: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class RankingQuality:
    """A ranking's correlation with the truth, and what it gains over others; none where that says nothing."""

    tau: Interval
    per_ranking: list[float]
    gain_over_last: Interval | None = None
    gain_over_parameters: Interval | None = None
    gain_over_flops: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class AveragingCurve:
    """The correlation with the truth of the mean of so many last evaluations."""

    evaluations: list[int]
    tau: list[float]


@dataclass(frozen=True, kw_only=True)
class OverTime:
    """The correlation with the truth from one mini-batch or epoch to the next, by instance."""

    steps: list[list[float]]
    epochs: list[list[float]]
    mean_over_steps: float
    deviation_over_steps: float
    mean_over_epochs: float
    deviation_over_epochs: float
    averaging_last: AveragingCurve
    fine_tuned: list[float] | None
    fine_tuned_per_instance: list[list[float]] | None
    fine_tuned_after: list[int]
    fine_tuned_gain: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingFigures:
    """What a way to train says of itself.

    Attributes:
        reports: of each supernet: what was ``dropped`` and when, where the order of ``landmarks`` came from.
        told: of how many children's order it was told.
        untold_tau: the correlation of the averaged scores among the other children.
    """

    reports: list[Json]
    told: int
    untold_tau: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Variation:
    """The same with one thing changed: the correlation of its averaged scores, and what they gain over the others.

    ``accuracy`` is the mean of the run's metric.
    """

    variation: str
    accuracy: float
    mean_over_steps: float | None = None
    deviation_over_steps: float | None = None
    per_instance: list[float] | None = None
    tau: Interval | None = None
    gain: Interval | None = None
    training: TrainingFigures | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingCosts:
    """What each way to a ranking costs, in training steps of one child."""

    supernet: float
    evaluation: float
    averaging: float
    fine_tuning: float
    truth: float


@dataclass(frozen=True, kw_only=True)
class TopFigures:
    """What a ranking is worth where one chooses: see ``ramet.ranking.analysis.top_weighted``."""

    top_half: float
    precision_at: int
    precision: float
    regret: float


@dataclass(frozen=True, kw_only=True)
class BiasFigures:
    """What the supernets think of an operation: see ``ramet.ranking.OperationBias``."""

    operation: str
    count: int
    scored: float
    true: float
    bias: Interval


@dataclass(frozen=True, kw_only=True)
class LongerTraining:
    """Where the correlation goes with more epochs: its ``slope`` for each doubling, and what it would be ``then``."""

    from_epoch: int
    epochs: int
    then_epochs: int
    slope: Interval
    then: Interval


@dataclass(frozen=True, kw_only=True)
class ChildSizes:
    """Parameters and multiply-adds of each child, as it is when exported."""

    parameters: list[int]
    flops: list[int]


@dataclass(frozen=True, kw_only=True)
class RankResult(Result):
    """How far a supernet's ranking can be trusted. What needs a truth is none without one.

    Attributes:
        children: their names.
        instances: how many supernets were trained.
        correlation: of each ranking by its name, ``last``, ``averaged``, ..., ``parameters``, ``flops``.
        top: the true rank of the best of the first n picks, by ranking and ``top_n``.
        pruning: the share of the truly best quarter that survives pruning the worst half by a ranking.
        smallest_first: whether a ranking by size puts the smallest first.
        recommendation: what to do, each sentence with the measurement behind it.
        sizes: of the children; none in runs of earlier versions, as are the following.
        labels: short names of the children, for plots and tables; ``legend`` explains them.
        truth_unit: what the truth is: ``share``, ``percent`` (kept as shares), ``score``, or the run's ``metric``.
        pruning_interval: the share that survives pruning by the averaged scores, with its interval.
        top_weighted: by ranking, what it is worth where one chooses.
        bias: what the averaged scores think of each operation, the most over-rated first.
        longer: where the correlation goes with more epochs.
        gap: how much better children are alone than with shared weights.
        training: what the way to train says of itself.
        metric: what children are measured by. ``accuracy`` and the truth hold its values; what is compared inside are
            scores, the metric or minus it where lower is better.
    """

    children: list[str]
    instances: int
    stability: StabilityFigures
    accuracy: AccuracyFigures
    trained_is_best: TrainedRanks
    ranks: RankDistributions
    disturbance: DisturbanceFigures | None
    settings: Json
    truth_source: str | None
    costs: TrainingCosts
    guard: dict[str, float]
    variations: list[Variation]
    recommendation: list[str]
    truth: TruthFigures | None = None
    smallest_first: dict[str, bool] = field(default_factory=dict)
    correlation: dict[str, RankingQuality] = field(default_factory=dict)
    over_time: OverTime | None = None
    top: dict[str, dict[str, float]] = field(default_factory=dict)
    pruning: dict[str, float] = field(default_factory=dict)
    groups: list[list[str]] | None = None
    sizes: ChildSizes | None = None
    labels: list[str] = field(default_factory=list)
    legend: list[str] = field(default_factory=list)
    truth_unit: str = "share"
    pruning_interval: Interval | None = None
    top_weighted: dict[str, TopFigures] = field(default_factory=dict)
    bias: list[BiasFigures] = field(default_factory=list)
    longer: LongerTraining | None = None
    gap: Interval | None = None
    training: TrainingFigures | None = None
    metric: MetricFigures = field(default_factory=MetricFigures)

    @property
    def truth_is_share(self) -> bool:
        """Whether the truth is a share, written as a percentage."""
        return self.metric.is_share if self.truth_unit == "metric" else self.truth_unit != "score"

    def truth_score(self, value: float) -> float:
        """The score of a value of the truth: more is better, as it is in a table anyway."""
        return self.metric.value(value) if self.truth_unit == "metric" else value

    @property
    def shown(self) -> list[str]:
        """What the children are called in plots and tables."""
        return self.labels or self.children

    def children_table(self) -> Table:
        """Every child in a row: its size, its scores with shared weights and its truth; the truly best first."""
        made: Table = self._views().children_table(self)
        return made

    def words(self) -> list[str]:
        """The recommendation, and where the report is."""
        lines = [f"- {line}" for line in self.recommendation]
        return lines if self.report is None else [*lines, "", f"Report: {self.report}"]
