"""What a search gives: the architecture found, those it was chosen among, and how they fared trained alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.fields import from_json
from ramet.jobs.result import Result
from ramet.reports.formats import Format, number
from ramet.reports.metric import MetricFigures
from ramet.runs import read_records
from ramet.runs.encoding import Json

if TYPE_CHECKING:
    from ramet.reports.page import Page


@dataclass(frozen=True, kw_only=True)
class FoundArchitecture:
    """One that the search ended with, by its choices and its name in the space's own notation.

    Attributes:
        error: on the whole validation split, with shared weights, or after its longest training alone in a staged
            search; a perplexity for words, the value of the recipe's own metric, and none where nothing was trained.
        flops: multiply-adds for one input.
        synflow: a score of the untrained network, none where there is none; ``jacobian`` is another.
        steps: the mini-batches of the training that ``error`` is of, in a staged search.
        short_error: the error after the short training, which all that a staged search trained have had.
    """

    arch: list[int]
    name: str
    error: float | None
    parameters: int
    flops: int
    synflow: float | None = None
    jacobian: float | None = None
    steps: int | None = None
    short_error: float | None = None

    @property
    def comparable(self) -> float | None:
        """An error after as much training as the other candidates have had."""
        return self.error if self.short_error is None else self.short_error


@dataclass(frozen=True, kw_only=True)
class TrainedArchitecture:
    """One that was trained alone.

    Attributes:
        validation: the error (perplexity, metric) on which the best is chosen, the mean over seeds.
        test: the same of the test split.
        tests: that of the test split for each seed.
    """

    name: str
    arch: list[int]
    validation: float
    test: float
    tests: list[float]


@dataclass(frozen=True, kw_only=True)
class SearchBaseline:
    """An architecture that needed no search, beside the one that was found.

    Attributes:
        name: how it was chosen: random, largest that fits, training-free best.
        architecture: its name in the space's own notation.
        flops: multiply-adds for one input.
        error: the error (perplexity, metric) on validation data, trained as long as ``found``; none if it diverged.
        found: that of the architecture found.
    """

    name: str
    architecture: str
    parameters: int
    flops: int
    error: float | None
    found: float | None


@dataclass(frozen=True, kw_only=True)
class SearchStage:
    """A stage of a staged search.

    Attributes:
        stage: its name.
        about: what it did.
        cost: in the unit of the budget.
        agreement: Kendall's tau between its order and that of the next dearer trainings, none where nothing was there
            to compare; ``compared`` says over how many architectures.
        seen: the architectures that it looked at.
        dropped: how many of them went no further.
    """

    stage: str
    about: str
    cost: float
    agreement: float | None
    compared: int
    seen: int
    dropped: int


@dataclass(frozen=True, kw_only=True)
class SearchEpoch:
    """An epoch of a search; what its kind of search does not measure is none.

    Attributes:
        number: from 0 on.
        archs: the children that were trained, by name.
        err1: the error (perplexity, metric) of each right after its training; none if it diverged or was not measured.
        err2: the same at the end of the epoch.
        difference_mean: the mean of err2 - err1, or of err1 - err2 where higher is better: above 0, something was lost.
        difference_best5: of the five best err1.
        difference_max: the largest.
        disturbance: how far outputs moved, the mean over children.
        loss: the mean training loss.
        validation_loss: of the relaxed network.
        diverged: the children that were put back, by name.
        reward: the mean reward of what the strategy proposed.
        strategy: its own figures.
        guard: the guard's own figures.
        best: what has been the best so far.
    """

    number: int
    archs: list[str] = field(default_factory=list)
    err1: list[float | None] = field(default_factory=list)
    err2: list[float | None] = field(default_factory=list)
    difference_mean: float | None = None
    difference_best5: float | None = None
    difference_max: float | None = None
    disturbance: float | None = None
    loss: float | None = None
    validation_loss: float | None = None
    diverged: list[str] = field(default_factory=list)
    reward: float | None = None
    strategy: dict[str, float] = field(default_factory=dict)
    guard: dict[str, float] = field(default_factory=dict)
    best: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class DrawnCell:
    """A cell as a graph: nodes are a key and a label, edges two keys and the name of an operation."""

    title: str
    nodes: list[list[str]]
    edges: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class SearchResult(Result):
    """The architecture found.

    Attributes:
        metric: the name of what is called an error here: ``error``, the share of wrong labels, ``perplexity``, or the
            recipe's own metric, of which ``measure`` says more.
        best: the name of the architecture found.
        candidates: what the search ended with, the best on shared weights first.
        trained: the first of them trained alone, in the same order.
        pareto: by cost, the names of the candidates that no other beats in both cost and error.
        epochs: how many the search had.
        diverged: how many children were put back because they diverged.
        exported: the file of the network found, none where there is none; ``not_exported`` says why.
        cells: of the architecture found, as the space draws them; none for a space that draws none.
        plan: what was done, as JSON values.
        baselines: what needed no search, to be compared with.
        compared: how the baselines and the architecture found were trained to be compared.
        stages: of a staged search, in order.
        unit: what its budget counts: seconds, evaluations or multiply-adds.
        allowed: how many it was allowed, of all workers together.
        short_names: of architectures by their names, for plots and tables, where these are long; ``legend`` explains
            them.
        measure: the recipe's own metric, or that of targets that are numbers; none for errors and perplexities.
    """

    metric: str
    best: str
    candidates: list[FoundArchitecture]
    trained: list[TrainedArchitecture]
    pareto: dict[str, list[str]]
    epochs: int
    diverged: int
    exported: str | None
    cells: list[DrawnCell]
    plan: Json
    not_exported: str = ""
    baselines: list[SearchBaseline] = field(default_factory=list)
    compared: str = ""
    stages: list[SearchStage] = field(default_factory=list)
    unit: str = ""
    allowed: float | None = None
    short_names: dict[str, str] = field(default_factory=dict)
    legend: list[str] = field(default_factory=list)
    measure: MetricFigures | None = None

    @property
    def measured_by(self) -> MetricFigures:
        """What architectures are measured by, and how it is written."""
        return self.measure or usual_figures(self.metric)

    @property
    def form(self) -> Format:
        """How it is written: a perplexity with two decimals."""
        return number if self.measure is None and self.metric != "error" else self.measured_by.form

    @property
    def ordered_by(self) -> str:
        """What a search in stages compares on validation data: losses, which have no ties, or the metric."""
        return "losses" if self.measure is None else self.measure.name

    def shown(self, name: str) -> str:
        """What an architecture is called in plots and tables."""
        return self.short_names.get(name, name)

    @property
    def found(self) -> FoundArchitecture | None:
        """The architecture found among the candidates, with its cost."""
        return next((entry for entry in self.candidates if entry.name == self.best), None)

    @property
    def budget(self) -> str:
        """The limits that the architecture had to keep; nothing if there were none."""
        return str(self.plan.get("budget") or "")

    @property
    def chosen(self) -> TrainedArchitecture | None:
        """The one of the trained architectures that is best on validation data."""
        return max(self.trained, key=lambda entry: self.measured_by.value(entry.validation), default=None)

    @property
    def network(self) -> Path | None:
        """The file of the network found, a ``torch.export`` program."""
        return None if self.folder is None or self.exported is None else self.folder / self.exported

    @property
    def strategy(self) -> str:
        """What proposed architectures."""
        return "staged" if self.stages else str(self.plan["strategy"])

    @property
    def guard(self) -> str:
        """What kept children from disturbing each other."""
        return str(self.plan["guard"])

    @property
    def sharing(self) -> str:
        """Which children shared weights."""
        return str(self.plan["sharing"])

    def course(self) -> list[SearchEpoch]:
        """The epochs, from the run's records; nothing without a run."""
        return [] if self.folder is None else read_course(read_records(self.folder))

    def words(self) -> list[str]:
        """The architecture, its cost, what it has to beat, and where its network and the report are."""
        short = self.shown(self.best)
        lines = [f"Found: {self.best}" + (f" (in tables {short})" if short != self.best else "")]
        lines += [f"Places of a short name: {'; '.join(self.legend)}."] if self.legend else []
        lines += [f"Cost: {self.cost_words()}."] if self.found is not None else []
        if self.baselines:
            lines.append(f"Beside it, {self.metric} on validation data, {self.compared}: {self.baseline_words()}.")
        lines += [doubt] if (doubt := self.doubt()) else []
        lines += [f"Spent: {self.spent_words()}."] if self.stages else []
        lines += [f"How sure: {line}" for line in self.sure_words()]
        lines += [] if self.network is None else [f"Network: {self.network}"]
        lines += [f"Not written: {self.not_exported}"] if self.trained and self.not_exported else []
        return lines if self.report is None else [*lines, f"Report: {self.report}"]

    def doubt(self) -> str:
        """What did better without a search, in a sentence; empty if nothing did."""
        known = [(e.name, e.error, e.found) for e in self.baselines if e.error is not None and e.found is not None]
        score = self.measured_by.value
        better = [name for name, theirs, found in known if score(theirs) > score(found)]
        return f"At this length {' and '.join(better)} did better: the find is not firm." if better else ""

    def cost_words(self) -> str:
        """What the architecture found costs, beside what it may."""
        assert self.found is not None
        costs = f"{self.found.parameters:,} parameters and {self.found.flops:,} multiply-adds"
        return f"{costs}; the budget is {self.budget}" if self.budget else costs

    def baseline_words(self) -> str:
        """The errors, or other figures, of what was found and of the baselines."""
        values = [("found", self.baselines[0].found), *((entry.name, entry.error) for entry in self.baselines)]
        return ", ".join(f"{name} {self._text(value)}" for name, value in values)

    def _text(self, value: float | None) -> str:
        if value is None or value != value:
            return "diverged"
        return f"{value:.4g}" if self.measure is None and self.metric != "error" else self.measured_by.form(value)

    def spent_words(self) -> str:
        """What the stages cost."""
        total = sum(stage.cost for stage in self.stages)
        each = ", ".join(f"{stage.stage} {amount_text(self.unit, stage.cost)}" for stage in self.stages if stage.cost)
        return f"{amount_text(self.unit, total)} of {amount_text(self.unit, self.allowed or total)} ({each})"

    def sure_words(self) -> list[str]:
        """How far each stage agrees with the trainings that judge it, a line each, with what that is worth."""
        lines = []
        for stage in self.stages:
            if stage.agreement is not None:
                firm = "" if stage.compared >= 10 else ", which is too few to be firm"
                lines.append(
                    f"{stage.stage} agrees with the next dearer trainings at tau {stage.agreement:.2f} over "
                    f"{stage.compared} architectures{firm}."
                )
        return lines

    def page(self, config: Json, beside: SearchResult | None = None) -> Page:
        """The report; the curves of another search, without the guard for example, may be drawn beside this one's."""
        made: Page = self._views().page(self, config, [] if beside is None else beside.course())
        return made


def read_course(records: list[Json]) -> list[SearchEpoch]:
    """The epochs of a run's records."""
    found = []
    for record in records:
        kind, _, number = record["key"].partition("/")
        if kind == "epoch":
            figures = {name: value for name, value in record.items() if name != "key"}
            found.append(from_json(SearchEpoch, {"number": int(number), **figures}, record["key"]))
    return found


def amount_text(unit: str, amount: float) -> str:
    """An amount of a budget in words.

    >>> amount_text("seconds", 90.0), amount_text("evaluations", 1.0)
    ('1.5 min', '1 evaluation')
    """
    if unit == "seconds":
        return f"{amount / 60:.1f} min"
    if amount == 1:
        unit = unit.removesuffix("s")
    return f"{amount:.3g} {unit}" if amount < 1e6 else f"{amount:.2e} {unit}"


def usual_figures(metric: str) -> MetricFigures:
    """An error, the share of wrong labels, or a perplexity."""
    return MetricFigures(name=metric, higher_is_better=False, is_share=metric == "error")
