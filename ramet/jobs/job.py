"""What a job is: everything that a run depends on, and the four things that differ between jobs.

An author of a job writes ``build``, ``setting``, ``work`` and the class of its result; ``runner.py`` does the rest:
directories, locks, resuming, ranks, TensorBoard, the report.
"""

from __future__ import annotations

import inspect
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from ramet.errors import ConfigError
from ramet.fields import from_json, to_json
from ramet.jobs.misplaced import where_it_belongs
from ramet.registry import KINDS, Spec, anchored, parse_spec, registry_of, resolve_reference
from ramet.runs.encoding import Json
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.execution import Executor
    from ramet.execution.ranks import Ranks
    from ramet.jobs.data_options import DataOptions
    from ramet.jobs.result import Result
    from ramet.runs import Run

Setup = TypeVar("Setup")


@dataclass(frozen=True)
class Session:
    """Where a job works this time; none of it has an influence on the result.

    Args:
        run: the run directory; none on a rank that is not the leader.
        executor: where independent trainings run.
        ranks: the processes that share one training; for jobs that can.
        seconds_between_checkpoints: how much work of a training a kill may cost.
        notify: called with a kind of event and its values, for whoever watches.
    """

    run: Run
    executor: Executor
    ranks: Ranks
    seconds_between_checkpoints: float
    notify: Callable[[str, Json], None] = lambda event, values: None


@dataclass(frozen=True, kw_only=True)
class Job(ABC, Generic[Setup]):
    """Everything that a run depends on.

    Args:
        seed: the seed that all randomness of the run follows from.
        device: where tensors are, for example cpu or cuda.
    """

    kind: ClassVar[str]
    gives: ClassVar[str]
    """A reference to the class of the result, which is not imported before there is one."""
    sources: ClassVar[tuple[str, ...]]
    """Fields that name what the job is about, each called by the kind of part that it names."""
    can_share_ranks: ClassVar[bool] = False
    apart: ClassVar[tuple[str, ...]] = ()
    """Fields that no result depends on: they are no part of what a run is."""
    is_checked_when_finished: ClassVar[bool] = True
    """Whether a finished run that is resumed must still fit what its options name before it gives its result again."""

    seed: int = 0
    device: str = "cpu"

    @classmethod
    def result_class(cls) -> type[Result]:
        """The type of what the job gives."""
        found: type[Result] = resolve_reference(cls.gives, trusted=True)
        return found

    @abstractmethod
    def build(self, *, trust: bool = False) -> Setup:
        """All that the options name, or a refusal before anything is written; ``trust`` lets code of files run."""

    @abstractmethod
    def setting(self, setup: Setup) -> Json:
        """What the data and the subject are, by content: a run goes on only with what it began with."""

    @abstractmethod
    def work(self, setup: Setup, session: Session) -> Json | None:
        """Do what the run's records do not hold yet; gives JSON values, and none on a rank that is not the leader."""

    def asked(self) -> Job[Any]:
        """The job that its options ask for, where that is another one."""
        return self

    def idle(self) -> tuple[str, ...]:
        """Fields that no result of this very job depends on: ``apart``, and options of what it does not do."""
        return self.apart

    def code(self) -> list[str]:
        """The references to code that the options name; a job that a run directory holds needs trust for them."""
        named = [found for kind in self.sources for found in code_of(kind, getattr(self, kind))]
        return [*named, *self.recipe.code()]  # type: ignore[attr-defined]  # every job has one

    def anchored(self) -> Self:
        """The job with its files and folders named from the root, so that it is found again from any other folder."""
        changes: dict[str, Any] = {kind: anchored_source(kind, getattr(self, kind)) for kind in self.sources}
        changes["data_options"] = self.data_options.anchored()  # type: ignore[attr-defined]  # every job has some
        changes["recipe"] = self.recipe.anchored()  # type: ignore[attr-defined]
        return replace(self, **changes)

    def to_json(self) -> Json:
        """The job as JSON values."""
        values: Json = to_json(self)
        return values

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """The job of a run's ``config.json``; a field that a later version added takes its default."""
        if not values:
            raise ConfigError(f"config.json must describe a job of kind {cls.kind}, but is empty.")
        return from_json(cls, values)

    @classmethod
    def help(cls) -> str:
        """What the command does: the docstring without its arguments."""
        return (cls.__doc__ or "").partition("\n\n    Args:")[0]


def anchored_source(kind: str, source: Any) -> Any:
    """A source with its file named from the root; a name that is known, or an object, stays as it is."""
    if not isinstance(source, str):
        return source
    if kind == "data" and source.startswith("text:"):
        return _anchored_text(source)
    return anchored(source, registry_of(kind) if kind in KINDS else ())


def _anchored_text(source: str) -> str:
    """``text:FILE:tokens=FILE`` with both files named from the root."""
    spec = parse_spec(source, ("text",))
    options = {name: anchored(value) if name == "tokens" else value for name, value in spec.options.items()}
    values = tuple(anchored(value) if isinstance(value, str) else value for value in spec.values)
    return str(Spec(spec.name, values, options))


def code_of(kind: str, source: Any) -> list[str]:
    """The references to code in a text that names a part of a kind; a path, or a stream, names none."""
    return registry_of(kind).code(source) if isinstance(source, str) and kind in KINDS else []


def new_folder(kind: str) -> Path:
    """Where a run goes that was given no place."""
    return Path("runs") / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}"


def complete_words(verb: Callable[..., Any]) -> None:
    """Adds to a verb's docstring what all verbs have in common; its own words say the rest."""
    verb.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\n{inspect.cleandoc(_EVERY_VERB)}\n"


_EVERY_VERB = """
    Called again with the same arguments and the same ``out``, an interrupted run goes on and a finished one gives its
    result again.

    Args:
        seed: what all randomness follows from.
        out: the run directory; a new one under ``runs/`` if none.
        executor: where independent trainings run, or a number of worker processes. With more than one, a script needs
            the usual ``if __name__ == "__main__":``.
        device: where tensors are.
        **options: of the data set or the stream by name: see the job's ``data_options``.

    Raises:
        ConfigError: something cannot work, or ``out`` holds a run of other arguments.
    """


def run_verb(
    job: Job[Any],
    out: str | Path | None,
    executor: Executor | int | None,
    data_options: dict[str, Any],
    *,
    trust: bool = False,
) -> Result:
    """Do a job, or go on with it, and give its result; ``trust`` is for code that files name which the job names."""
    from ramet.execution import Executor, make_executor
    from ramet.jobs.runner import start

    _check_fields(job)
    place_of_work: object = executor
    if not isinstance(place_of_work, Executor | int | None):
        raise ConfigError(f"executor must be an Executor or a number of worker processes, but got {executor!r:.80}.")
    if not isinstance(out, str | os.PathLike | None):
        raise ConfigError(f"out must be the path of a run directory, but got {out!r:.80}.")
    if data_options:
        known: Any = job.data_options  # type: ignore[attr-defined]  # every job that a verb starts has some
        for name in data_options:
            if not hasattr(known, name):
                raise ConfigError(where_it_belongs(job, name))
        job = replace(job, data_options=replace(known, **data_options))  # type: ignore[call-arg]
    job = _with_data_set(job)
    place = new_folder(job.kind) if out is None else Path(out)
    engine = executor if isinstance(executor, Executor) else make_executor(1 if executor is None else executor)
    result = start(job.anchored(), place, engine, go_on=True, trust=trust)
    assert result is not None  # there are no ranks here
    return result


def _check_fields(job: Job[Any]) -> None:
    """Refuse what is none of the job's own: a plan of another verb, a mapping for a recipe, a seed in words."""
    seed: object = job.seed
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise ConfigError(f"seed must be a whole number, but got {seed!r}.")
    for field in fields(job):
        if field.name in ("plan", "recipe"):
            kind = Recipe if field.name == "recipe" else type(cast("Any", field.default_factory)())
            if not isinstance(value := getattr(job, field.name), kind):
                raise ConfigError(f"{field.name} must be a {kind.__name__}, but got {type(value).__name__}.")


def _with_data_set(job: Job[Any]) -> Job[Any]:
    """The job with the ``DataSet`` of data of one's own: arrays, a torch ``Dataset`` or a ``DataLoader``."""
    data = getattr(job, "data", "")
    if isinstance(data, str):
        return job
    from ramet.data import DataSet, load

    if isinstance(data, DataSet):
        return job
    options: DataOptions = job.data_options  # type: ignore[attr-defined]  # every job has some
    return replace(job, data=load(data, **options.images(seed=job.seed)), data_options=type(options)())  # type: ignore[call-arg]
