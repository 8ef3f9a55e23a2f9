"""What a growth gives: each method's curve, what grew where, what could not, and where the networks are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ramet.fields import from_json
from ramet.growth.budget import Budget
from ramet.jobs.result import Result
from ramet.reports.formats import count
from ramet.reports.metric import MetricFigures
from ramet.reports.tables import Headline
from ramet.runs import read_records
from ramet.runs.encoding import Json

ACCURACY = MetricFigures()


@dataclass(frozen=True, kw_only=True)
class LayerFigures:
    """A layer of a network, by the name that it had before others were put behind it; new if a growth added it."""

    name: str
    kind: str
    units: int
    inputs: int
    params: int
    new: bool


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """How large a network is: units of groups that can grow, weights, multiplications for one example."""

    neurons: float
    params: int
    flops: float


@dataclass(frozen=True, kw_only=True)
class LeftAlone:
    """A layer or weight that cannot grow, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """What a group of ``units`` channels gained in a step; there is no score where a whole network was chosen."""

    units: int
    split: list[int] = field(default_factory=list)
    new: int = 0
    best_score: float | None = None


@dataclass(frozen=True, kw_only=True)
class CopyFigures:
    """A copy of a block: of which, behind which, and whether it began without effect."""

    source: str
    behind: str
    silent: bool = True
    counted: bool = False


@dataclass(frozen=True, kw_only=True)
class StepFigures:
    """A step of a growth, once the network has been trained again.

    Attributes:
        number: 0 is the first training, before anything grew.
        layers: the widths of new layers, by the place that they stand behind.
        blocks: the copies of blocks.
        budget_size: in the budget's unit.
        score: on validation data, higher is better: the metric, or minus the metric where lower is better.
        loss: the mean training loss after training.
        loss_before: the training loss just before the growth.
        growing_work: multiply-adds of the growth, without training; 0 in runs of earlier versions.
        training_work: multiply-adds of the training.
    """

    number: int
    widened: dict[str, GroupFigures] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)
    blocks: list[CopyFigures] = field(default_factory=list)
    num_candidates: int = 0
    sizes: SizeFigures
    budget_size: float = 0.0
    score: float
    loss: float | None = None
    loss_before: float | None = None
    loss_after: float | None = None
    growing_work: float = 0.0
    training_work: float = 0.0

    @property
    def best_score(self) -> float | None:
        """The highest score of anything that the step chose."""
        scores = [group.best_score for group in self.widened.values() if group.best_score is not None]
        return max(scores, default=None)


@dataclass(frozen=True, kw_only=True)
class StepSeconds:
    """How long a step took."""

    growing: float
    training: float


@dataclass(frozen=True, kw_only=True)
class MethodFigures:
    """What a method made of the network; sizes and figures are those of the network that it hands back.

    Attributes:
        stopped: why it ended.
        kept: the step whose network that is, where it is not the last one: the best one, which patience asks for.
        steps: its curve, from the network as it was.
        flops: multiplications for one example.
        neurons: units of groups that can grow.
        validation: the metric on validation data.
        test: the metric on test data, looked at once.
        network: its folder inside the run directory.
        not_exported: which of its files are missing, and why, or nothing.
        work_in_vain: multiply-adds for a growth that could add nothing.
    """

    stopped: str
    steps: list[StepFigures]
    params: int
    flops: float
    neurons: float
    validation: float
    test: float
    layers: list[LayerFigures]
    network: str
    not_exported: str
    kept: int | None = None
    work_in_vain: float = 0.0

    @property
    def end(self) -> StepFigures:
        """The step whose network is handed back."""
        return self.steps[-1 if self.kept is None else self.kept]

    @property
    def work(self) -> float:
        """The multiply-adds of all trainings and growths; 0 in runs of earlier versions."""
        return self.work_in_vain + sum(step.growing_work + step.training_work for step in self.steps)


@dataclass(frozen=True, kw_only=True)
class ArmFigures:
    """Another way to a network of the same size for the same work.

    Attributes:
        flops: multiplications for one example.
        work: multiply-adds of its training.
        num_steps: of its training.
        validation: the metric on validation data.
        test: the metric on test data, looked at once.
        network: its folder inside the run directory.
        not_exported: which of its files are missing, and why, or nothing.
    """

    params: int
    flops: float
    work: float
    num_steps: int
    validation: float
    test: float
    layers: list[LayerFigures]
    network: str
    not_exported: str


@dataclass(frozen=True, kw_only=True)
class GrowResult(Result):
    """What each method made of the same network.

    Attributes:
        data: the fingerprint of the data.
        budget: how large it might get.
        layers: of the network before it grew.
        refusals: what of it cannot grow.
        methods: by name, in the order in which they were asked for.
        start: the checksum of the file of weights that the network began with, or none.
        metric: what networks are measured by.
        rows: what is counted where the metric is a share of them: images, rows, or the tokens of texts.
        against: what the best growth was compared with, by name; each had its work and, but for ``start``, its size.
        num_validation: how many of them validate; 0 in runs of earlier versions.
        given_params: the parameters of the network as it was given; 0 in runs of earlier versions. A growth may begin
            with a wider one, which is its step 0.
    """

    network: str
    data_name: str
    data: str
    seed: int
    budget: Budget
    layers: list[LayerFigures]
    refusals: list[LeftAlone]
    methods: dict[str, MethodFigures]
    start: str | None = None
    metric: MetricFigures = field(default_factory=MetricFigures)
    rows: str = "images"
    against: dict[str, ArmFigures] = field(default_factory=dict)
    num_validation: int = 0
    given_params: int = 0

    @property
    def best(self) -> str:
        """The method of the best validation figure; of equal ones that of fewer parameters."""

        def merit(name: str) -> tuple[float, int]:
            return self.metric.value(self.methods[name].validation), -self.methods[name].params

        return max(self.methods, key=merit)

    @property
    def taken(self) -> str:
        """The method, or what it was compared with, whose network to take: the best on validation data.

        Of equal ones it is that of fewer multiply-adds, and then the growth.
        """
        found: dict[str, MethodFigures | ArmFigures] = {self.best: self.methods[self.best], **self.against}
        return max(found, key=lambda name: (self.metric.value(found[name].validation), -found[name].flops))

    @property
    def params_before(self) -> int:
        """The parameters of the network before anything grew."""
        return self.given_params or next(iter(self.methods.values())).steps[0].sizes.params

    @property
    def networks(self) -> dict[str, Path]:
        """The folder of each network, for ``ramet.growth.load_network``; nothing without a run."""
        folder = self.folder
        return {} if folder is None else {name: folder / each.network for name, each in self.figures.items()}

    @property
    def figures(self) -> dict[str, MethodFigures | ArmFigures]:
        """The methods, and what the best of them was compared with."""
        return {**self.methods, **self.against}

    def seconds(self) -> dict[str, list[StepSeconds]]:
        """What the steps of each method took, from the run's records; nothing without a run."""
        return {} if self.folder is None else read_seconds(read_records(self.folder))

    def headline(self) -> Headline | None:
        """The best figure, with the metric's name: beside runs of other jobs its column does not say what it is."""
        best = super().headline()
        return None if best is None else replace(best, name=f"{best.name} {self.metric.name}")

    def words(self) -> list[str]:
        """What could not grow, where the networks are, which to take, and the report."""
        from ramet.jobs.grow.advice import advice

        lines = [f"- left alone: {refusal.name}: {refusal.reason}" for refusal in self.refusals]
        for name, folder in self.networks.items():
            problem = self.figures[name].not_exported
            take = " (take this one)" if self.against and name == self.taken else ""
            lines.append(f"- network: {folder}{take}" + (f" (not written: {problem})" if problem else ""))
        if self.against:
            lines.append(f"- {advice(self)}")
        return lines if self.report is None else [*lines, "", f"Report: {self.report}"]


def read_seconds(records: list[Json]) -> dict[str, list[StepSeconds]]:
    """What the steps of each method took."""
    found: dict[str, list[StepSeconds]] = {}
    timed = [record for record in records if record["key"].endswith("/seconds")]
    for record in sorted(timed, key=lambda record: str(record["key"])):
        values = {name: value for name, value in record.items() if name != "key"}
        found.setdefault(record["key"].split("/")[0], []).append(from_json(StepSeconds, values, record["key"]))
    return found


def words_of(step: StepFigures, most: int = 99) -> str:
    """What grew in a step, in words.

    >>> sizes = SizeFigures(neurons=9, params=99, flops=99.0)
    >>> widened = {"conv1": GroupFigures(units=4, split=[3, 5], new=1)}
    >>> words_of(StepFigures(number=1, widened=widened, layers={"conv2": 4}, sizes=sizes, score=0.5))
    'conv1 +3 (2 split, 1 new), a new layer behind conv2 with 4'
    >>> blocks = [CopyFigures(source="body.0", behind="body.1")]
    >>> words_of(StepFigures(number=2, blocks=blocks, sizes=sizes, score=0.5))
    'a copy of body.0 behind body.1'
    """
    parts = []
    for place, group in step.widened.items():
        split, new = len(group.split), group.new
        kinds = [f"{split} split"] * bool(split) + [f"{new} new"] * bool(new)
        parts.append(f"{place} +{split + new} ({', '.join(kinds)})")
    parts += [f"{behind(site)} with {width}" for site, width in step.layers.items()]
    parts += [f"a copy of {copied.source} behind {copied.behind}" for copied in step.blocks]
    hidden = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def behind(site: str) -> str:
    """What a new layer is called."""
    return f"a new layer behind {site}"


def step_line(method: str, step: StepFigures, metric: MetricFigures = ACCURACY) -> str:
    """A step in a line: its size, its accuracy as a figure and a bar, and what grew; other metrics have no bar."""
    bar = "█" * round(20 * max(step.score, 0.0)) if metric.is_share else metric.name
    grew = words_of(step, most=3) if step.number else "wider from the start" if step.widened else "as it was"
    size = count(step.sizes.params)
    return f"{method:<10}{step.number:>3}  {size:>8} parameters  {metric.text(step.score):>7}  {bar:<20}  {grew}"
