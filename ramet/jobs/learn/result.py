"""What a stream leaves behind: the figures of every method over seeds, and what its network looks like."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ramet.jobs.result import Result
from ramet.reports.metric import MetricFigures
from ramet.runs.encoding import Json

ONTO = "onto"
"""The name under which results hold a network that knew other tasks before."""


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """A figure over seeds: its mean over those that have it, its deviation, none for one seed, and that of each."""

    mean: float | None
    deviation: float | None
    values: list[float | None]

    @property
    def known(self) -> float:
        """The mean of a figure that every stream has."""
        assert self.mean is not None
        return self.mean


@dataclass(frozen=True, kw_only=True)
class StreamFigures:
    """The measures of ``ramet.continual.measures`` on test data, what the network costs, and what learning it took.

    ``work`` are the multiply-adds of all trainings, probes and growths; runs of earlier versions have none.
    """

    average_accuracy: SeedSpread
    backward_transfer: SeedSpread
    forgetting: SeedSpread
    forward_transfer: SeedSpread
    average_gain: SeedSpread
    paper_gain: SeedSpread
    parameters: SeedSpread
    stored_bytes: SeedSpread
    flops: SeedSpread
    seconds: SeedSpread
    work: SeedSpread | None = None
    intransigence: SeedSpread | None = None


@dataclass(frozen=True, kw_only=True)
class NodeFigures:
    """A copy of a layer in a joint network, made for a task; a patch changes another copy for this task alone."""

    id: str
    layer: str
    task: str
    parameters: int
    patches: str | None = None


@dataclass(frozen=True, kw_only=True)
class LayerMap:
    """A joint network of shared and own layers: the path of each task is a list of nodes."""

    nodes: list[NodeFigures]
    paths: dict[str, list[str]]


@dataclass(frozen=True, kw_only=True)
class UnitUses:
    """Which neurons or weights each task uses.

    Attributes:
        unit: what they are called.
        layers: the names of the layers.
        uses: for each task and layer, how many of those made for the first task, the second, ... up to its own.
    """

    unit: str
    layers: list[str]
    uses: dict[str, list[list[int]]]


@dataclass(frozen=True, kw_only=True)
class TaskConflict:
    """How differently a new task and one before it see the new task's images, by layer and over all of them."""

    task: str
    total: float
    layers: list[float]


@dataclass(frozen=True, kw_only=True)
class BoundTask:
    """Where a task was bound: the task whose path it shares, the layers of its own, and the measured conflicts."""

    task: str
    bound_to: str
    expanded: list[int]
    conflicts: list[TaskConflict]

    @property
    def chosen(self) -> TaskConflict:
        """The conflict with the task that it was bound to."""
        return next(conflict for conflict in self.conflicts if conflict.task == self.bound_to)


@dataclass(frozen=True, kw_only=True)
class EarlierTask:
    """A task that a network knew before it went on: whether its weights stayed, and the metric before and after."""

    name: str
    unchanged: bool
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, kw_only=True)
class MethodOutcome:
    """What one method made of the stream.

    Attributes:
        figures: over seeds.
        matrix: the mean accuracy on each task after each task; none for tasks that were still to come.
        growth: the mean parameters after each task.
        notes: what the method said of each task of the first seed.
        stored: the mean stored bytes after each task.
        work: the mean multiply-adds that each task took.
        explanation: why the network of the first seed became what it is.
        graph: the network of the first seed, if it consists of shared and own layers.
        units: the same, if its tasks share single neurons or weights.
        file: the network of the first seed, in the run directory.
        exported: the folder with the networks of its tasks, each a file that torch alone runs and a card; none where
            the method was not asked for.
        not_exported: why a file of a task is missing, by the task's name.
        unmeasured: tasks that the network knew before and that changed, on which it was not measured.
        earlier: what became of each task that the network knew before.
        forgets_nothing: whether the method promises it, and earlier tasks stayed as they were; none where that is not
            known.
        validation_accuracy: the average accuracy on validation data.
    """

    figures: StreamFigures
    matrix: list[list[float | None]]
    growth: list[float]
    notes: list[Json] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)
    work: list[float | None] = field(default_factory=list)
    explanation: list[str] = field(default_factory=list)
    graph: LayerMap | None = None
    units: UnitUses | None = None
    file: str | None = None
    exported: str | None = None
    not_exported: dict[str, str] = field(default_factory=dict)
    unmeasured: list[str] = field(default_factory=list)
    earlier: list[EarlierTask] = field(default_factory=list)
    forgets_nothing: bool | None = None
    validation_accuracy: SeedSpread | None = None

    @cached_property
    def bound(self) -> list[BoundTask]:
        """The tasks whose conflicts with earlier ones were measured, from the notes."""
        decisions = [notes.get("decision") for notes in self.notes]
        return [
            BoundTask(
                task=decision["task"],
                bound_to=decision["bound_to"],
                expanded=decision["expanded"],
                conflicts=[
                    TaskConflict(task=each["task"], total=each["total"], layers=each["layers"])
                    for each in decision["conflicts"]
                ],
            )
            for decision in decisions
            if decision and decision["conflicts"]
        ]


@dataclass(frozen=True, kw_only=True)
class LearnResult(Result):
    """What was learned, forgotten and gained.

    The methods are by their names and options, individual networks first; ``onto`` is the network that went on.

    Attributes:
        controls: networks for each task alone, of as much work as a method, or of its parameters and its work.
        controls_of: the method that each of them is for.
        metric: what tasks are measured by. What is called accuracy here is its value; transfers, forgetting and gains
            are of minus the value where lower is better, so that they have the same sign for every metric.
        rows: what is counted where the metric is a share of them: images, rows, or the tokens of texts.
        classes: the names of each task's classes, where the data have names; empty in runs of earlier versions.
    """

    stream: str
    tasks: list[str]
    seeds: list[int]
    methods: dict[str, MethodOutcome]
    controls: dict[str, MethodOutcome] = field(default_factory=dict)
    controls_of: dict[str, str] = field(default_factory=dict)
    metric: MetricFigures = field(default_factory=MetricFigures)
    rows: str = "images"
    classes: list[list[str]] = field(default_factory=list)

    def named_classes(self) -> list[list[str]]:
        """The classes of each task, if they tell tasks apart and the tasks' own names do not say them already."""
        known = self.classes if len(self.classes) == len(self.tasks) else []
        is_told = all(task.endswith(" " + " ".join(own)) for task, own in zip(self.tasks, known, strict=bool(known)))
        return [] if is_told or len({tuple(own) for own in known}) < 2 else known

    @property
    def input(self) -> str:
        """What one input is called."""
        return {"images": "image", "rows": "row"}.get(self.rows, "text")

    def words(self) -> list[str]:
        """What the methods say of themselves, and where the report is."""
        from ramet.jobs.learn.advice import advise, in_words  # which reads results, too

        lines: list[str] = [in_words(advice, self) for advice in advise(self)]
        lines += [""] if lines else []
        for name, outcome in self.methods.items():
            if outcome.explanation:
                lines += [f"{name}:", *(f"- {line}" for line in outcome.explanation), ""]
        for name, outcome in self.methods.items():
            if outcome.exported is not None and self.folder is not None:
                lines.append(f"Networks of the tasks, by {name}: {self.folder / outcome.exported}")
            lines += [f"Not written, {name}, {task}: {problem}" for task, problem in outcome.not_exported.items()]
        return lines if self.report is None else [*lines, f"Report: {self.report}"]
