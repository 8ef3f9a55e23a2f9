"""`ramet study`: what is asked of a search for grow sequences, and how it is built and done."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.continual.recipe import LearnRecipe
from ramet.continual.study.address import anchored_address, is_masked, masked
from ramet.continual.study.plan import SequencePlan, StudyPlan, population_for
from ramet.errors import ConfigError
from ramet.fields import option
from ramet.jobs.data_options import StreamOptions
from ramet.jobs.given_network import anchored_network, described_network, with_network
from ramet.jobs.job import Job, Session, code_of, complete_words, run_verb
from ramet.runs.encoding import Json
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from torch.nn import Module

    from ramet.continual.streams.stream import Stream
    from ramet.continual.study.result import FoundSequences
    from ramet.continual.study.search import SequenceSearch
    from ramet.continual.study.sequences import SequenceSetup
    from ramet.execution import Executor
    from ramet.jobs.study.result import StudyResult
    from ramet.runs import Run

VARIABLE = "RAMET_STORAGE"
"""The environment variable that holds a storage's address: with its password, which no file of a run holds."""


@dataclass(frozen=True)
class StudySetup:
    """What a job names, built: what all sequences have in common, and how they are searched."""

    name: str
    sequences: SequenceSetup
    search: SequenceSearch


@dataclass(frozen=True, kw_only=True)
class StudyJob(Job["StudySetup"]):
    """Search how a stream of tasks is learned best: how much each task grows, where it is bound, in which order.

    Every trial learns the whole stream by bind-and-grow. Two things are weighed: the average gain over individual
    networks, on validation data, and the parameters. What no other trial beats in both is the Pareto front; its
    networks are kept in networks/, tested once, and take further tasks by `ramet learn --onto`. Several runs, also on
    several machines, share one study through --storage.

    For example:

    - on the embedded digits: `ramet study`
    - your own tasks: `ramet study --stream mine.json --trials 60 --binding free --order free --workers 2`
    - a trained network: `ramet study --network mine.py:network --start weights.safetensors --stream mine.json`
    - on each of several machines: `RAMET_STORAGE=postgresql+psycopg://ann:secret@db.example/lab ramet study`

    Args:
        stream: as for `ramet learn`: split-DATA:TASKS, permuted-DATA:TASKS, rotated-DATA:TASKS,
            families-DATA:FAMILIESxTASKS, domains, or a file.
        plan: what is searched, and how.
        data_options: which part of the stream's data sets.
        recipe: how each task is trained.
    """

    kind = "study"
    gives = "ramet.jobs.study.result:StudyResult"
    sources = ("stream",)
    apart = ("plan.storage", "plan.silence")
    is_checked_when_finished = False  # the storage may be gone, and is not needed

    stream: str | Stream = option("split-digits:5", kind=str)
    plan: StudyPlan = field(default_factory=StudyPlan)
    data_options: StreamOptions = field(default_factory=StreamOptions)
    recipe: Recipe = option(factory=LearnRecipe, kind=LearnRecipe)

    def to_json(self) -> Json:
        """The job as JSON values, without the password of its storage; a module is described by its layers."""
        values = described_network(self.plan, super().to_json())
        values["plan"]["storage"] = None if self.plan.storage is None else masked(self.plan.storage)
        return values

    @classmethod
    def from_json(cls, values: Json) -> StudyJob:
        """The job of a run's ``config.json``; an address whose password was masked comes from ``RAMET_STORAGE``."""
        job = super().from_json(values)
        shown = job.plan.storage or ""
        return replace(job, plan=replace(job.plan, storage=_from_environment(shown))) if is_masked(shown) else job

    def anchored(self) -> StudyJob:
        """Files named from the root, and the storage of the environment where none is given."""
        storage = self.plan.storage
        address = anchored_address(os.environ.get(VARIABLE, "") if storage is None else storage)
        return replace(super().anchored(), plan=replace(anchored_network(self.plan), storage=address))

    def code(self) -> list[str]:
        """Of the network and the method."""
        return [*super().code(), *code_of("skeleton", self.plan.network), *code_of("method", self.plan.method)]

    def build(self, *, trust: bool = False) -> StudySetup:
        """The stream, the network and the storage."""
        from ramet.continual.methods import BindAndGrow
        from ramet.continual.networks.making import make_template
        from ramet.continual.study.search import SequenceSearch
        from ramet.continual.study.sequences import SequenceSetup
        from ramet.data import on_device
        from ramet.training.rehearsal import rehearse, rehearse_metric

        options = self._method_options()
        (stream,) = self.data_options.streams(self.stream, range(self.seed, self.seed + 1), trust)
        name = self.stream if isinstance(self.stream, str) else stream.name
        if len(stream) < 2:
            raise ConfigError(f"a stream must have at least 2 tasks to be studied, but {name} has 1.")
        first = on_device(stream[0].dataset, self.device)  # refuses a device that is not there
        metric = self.recipe.metric_for(first.train.y)
        BindAndGrow(**options).check_targets(first.train.y, metric)
        template = make_template(
            self.plan.network,
            form=stream.form,
            num_classes=stream[0].info.num_classes,
            batch_norm=self.plan.batch_norm,
            start=self.plan.start,
            classifier=self.plan.classifier,
            seed=self.seed,
        )
        if template.is_trained and not self._gives("budget", options):
            options["budget"] = 0.0  # by default it takes the place of delta, which is what is searched
        sequences = SequenceSetup(stream, template, self.recipe, self.seed, Path(), options, device=self.device)
        sequences.method().check_network(template)
        for task in stream:
            template.check(task.info)
        trial = template.make_network(first.num_outputs, self.seed, "rehearsal").to(self.device)
        rehearse(self.recipe, trial, first.train.x, first.train.y)
        rehearse_metric(metric, trial, (first.validation.x, first.validation.y))
        search = SequenceSearch(**{each.name: getattr(self.plan, each.name) for each in fields(SequencePlan)})
        search.check(sequences)
        return StudySetup(name, sequences, search)

    def setting(self, setup: StudySetup) -> Json:
        """The stream, by content, what tasks are measured by, and a network that no name says all about."""
        from ramet.continual.networks.backbone import Backbone

        sequences = setup.sequences
        stream, template = sequences.stream, sequences.template
        setting = {"stream": stream.fingerprint(), "tasks": stream.names} | sequences.metric.described()
        return setting | ({"network": template.to_json()} if isinstance(template, Backbone) else {})

    def work(self, setup: StudySetup, session: Session) -> Json:
        """The search."""
        sequences = setup.sequences
        found = setup.search.run(
            sequences.stream,
            sequences.template,
            sequences.settings,
            session.run,
            session.executor,
            seed=sequences.seed,
            options=sequences.options,
            device=sequences.device,
            seconds_between_checkpoints=session.seconds_between_checkpoints,
        )
        return _result(setup, session.run, found)

    def _method_options(self) -> dict[str, Any]:
        """The options of bind-and-grow that every trial has."""
        from ramet.continual.methods import BindAndGrow, make_method

        given = self.plan.method
        method = make_method(given) if isinstance(given, str) else given
        if type(method) is not BindAndGrow:
            raise ConfigError(f"the method of a study must be bind-and-grow, but got {given!r}.")
        options = method.options
        for name in ("delta", "bindings"):
            if self._gives(name, options):
                raise ConfigError(f"{name} is what a study searches, so it cannot be given; got {given!r}.")
            del options[name]
        return options

    def _gives(self, name: str, options: Mapping[str, Any]) -> bool:
        """Whether the method was given an option, as far as one can know of an object."""
        from ramet.continual.methods import BindAndGrow

        method = self.plan.method
        return options[name] != BindAndGrow().options[name] or (isinstance(method, str) and f"{name}=" in method)


def study(
    stream: str | Stream = "split-digits:5",
    *,
    network: str | Module | Callable[..., Any] | None = None,
    start: str | Path | None = None,
    plan: StudyPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> StudyResult:
    """Search how a stream of tasks is learned best: how much each task grows, where it is bound, in which order.

    ``stream`` is a name such as ``split-digits:5``, a ``.json`` file, or a ``Stream``. ``plan`` says what is searched
    and how; the sequences there are lie in its ``space``. ``recipe`` says how each task is trained. ``network`` and
    ``start`` are those of the plan, at hand: a network is a name, a function that makes one, or any module, which is
    taken with the weights that it has, and is left as it is. Where Optuna, or the driver of the storage, is not
    installed, a ``MissingExtraError`` is raised.
    """
    plan = with_network(plan or StudyPlan(), network, start)
    job = StudyJob(stream=stream, plan=plan, recipe=recipe or LearnRecipe(), seed=seed, device=device)
    return cast("StudyResult", run_verb(job, out, executor, options))


complete_words(study)


def _result(setup: StudySetup, run: Run, found: FoundSequences) -> Json:
    from ramet.continual.study.result import network_file

    names, search = setup.sequences.stream.names, setup.search
    alone = [run.records[f"alone/{name}"] for name in names]
    front = []
    for row in found.front:
        key = f"test/{row['trial']}"
        tested: Json = run.records[key] if key in run.records else {}  # noqa: SIM401 - records have no get
        file = network_file(run.path, row["trial"])
        front.append(
            {
                **{name: row[name] for name in ("trial", "gain", "parameters", "sequence", "bound_to", "generation")},
                **{name: tested.get(name) for name in ("test_gain", "test_accuracy", "accuracies", "explanation")},
                "file": f"networks/{file.name}" if file.exists() else None,
            }
        )
    return {
        "stream": setup.name,
        "tasks": names,
        "num_trials": len(found.rows),
        "sampler": search.sampler,
        "population": population_for(search.num_trials) if search.sampler == "nsga2" else None,
        "space": asdict(search.space),
        "front": front,
        "trials": [
            {name: row[name] for name in ("trial", "gain", "parameters", "on_front", "sequence")} for row in found.rows
        ],
        "alone": {
            "parameters": sum(int(record["parameters"]) for record in alone),
            "validation_accuracy": sum(float(record["validation"]) for record in alone) / len(alone),
            "test_accuracy": sum(float(record["test"]) for record in alone) / len(alone),
        },
    } | setup.sequences.metric.described()


def _from_environment(shown: str) -> str:
    given = os.environ.get(VARIABLE, "")
    if not given:
        raise ConfigError(
            f"the password of a storage is not kept, so the address of {shown} must be in the environment variable "
            f"{VARIABLE}, which is empty."
        )
    if masked(given) != shown:
        raise ConfigError(f"{VARIABLE} must hold the address of the run's storage, {shown}, but holds {masked(given)}.")
    return given
