"""The search for grow sequences with Optuna: two objectives, a Pareto front, any storage, able to go on."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ramet.continual.joint import JointNetwork
from ramet.continual.sequences import GrowSequence, SequenceBench, SequenceSpace, run_sequence, train_alone
from ramet.continual.skeletons import Skeleton
from ramet.continual.streams import Stream
from ramet.errors import ConfigError, MissingExtraError, RunError
from ramet.execution import Executor, Task
from ramet.runs import Run
from ramet.seeding import derive_seed
from ramet.training import Settings

if TYPE_CHECKING:
    import optuna

Sampler = Literal["nsga2", "gp"]
BEAT_SECONDS, STALE_SECONDS = 20.0, 300.0
"""How often a running trial says that it lives, and after which silence another worker takes it over."""


def population_for(num_trials: int) -> int:
    """The population of NSGA-II that leaves about five generations; Optuna's own 50 would make 20 trials random.

    >>> [population_for(trials) for trials in (10, 20, 40, 1000)]
    [4, 4, 8, 50]
    """
    return max(4, min(50, 2 * (num_trials // 10)))


@dataclass(frozen=True, kw_only=True)
class SequenceSearch:
    """How grow sequences are searched.

    Attributes:
        space: the sequences there are.
        num_trials: finished trials to have in the end, those of an earlier call included (20 in the paper).
        sampler: ``nsga2``, as in the paper, with a population that fits the number of trials, or ``gp``, a Gaussian
            process for each objective.
        batch: trials that are asked for together and told together, in their order: results then do not depend on how
            many workers there are, nor on which was faster.
        storage: the address of an Optuna storage, such as ``postgresql://...``; a SQLite file in the run if empty. Runs
            that name one storage and study work on it together.
        study: the name of the study in the storage.
        keep: whether the networks of the Pareto front are kept in the run.
    """

    space: SequenceSpace = field(default_factory=SequenceSpace)
    num_trials: int = 20
    sampler: Sampler = "nsga2"
    batch: int = 2
    storage: str = ""
    study: str = "grow-sequences"
    keep: bool = True

    def __post_init__(self) -> None:
        if self.num_trials < 1 or self.batch < 1:
            raise ConfigError(f"num_trials and batch must be at least 1, but got {self.num_trials} and {self.batch}.")
        if self.sampler not in ("nsga2", "gp"):
            raise ConfigError(f"sampler must be one of nsga2, gp, but got {self.sampler!r}.")

    def run(
        self,
        stream: Stream,
        skeleton: Skeleton,
        settings: Settings,
        run: Run,
        executor: Executor,
        *,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> SearchResult:
        """Search, or go on with a search; the scenario is the paper's second: all tasks' data stay there.

        Raises:
            MissingExtraError: Optuna is not installed.
            RunError: the storage cannot be used.
        """
        optuna = import_optuna()
        bench = SequenceBench(stream, skeleton, settings, seed, run.path / "networks", options or {})
        bench = replace(bench, alone=self._alone(bench, run, executor))
        with _storage_errors(self.storage):
            study = self._open(optuna, run)
            owner = str(run.path.resolve())
            while True:
                trials = self._next(optuna, study, owner, seed)
                if not trials:
                    break
                self._evaluate(optuna, study, trials, bench, run, executor)
            return SearchResult.of(study, run.path, population_for(self.num_trials))

    def _alone(self, bench: SequenceBench, run: Run, executor: Executor) -> dict[str, dict[str, float]]:
        """The accuracies of the tasks alone, from the records where they are known."""
        names = bench.stream.names
        missing = [
            Task(f"alone/{name}", train_alone, {"task": name}) for name in names if f"alone/{name}" not in run.records
        ]
        label, on_failure = "training each task alone", run.record_failure
        for task, result in executor.run(missing, bench, label=label, on_failure=on_failure):
            run.records.append(task.key, **result)
        records = [run.records[f"alone/{name}"] for name in names]
        return {
            role: {name: float(record[role]) for name, record in zip(names, records, strict=True)}
            for role in ("validation", "test")
        }

    def _open(self, optuna: Any, run: Run) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        address = self.storage or f"sqlite:///{run.path / 'study.db'}"
        return optuna.create_study(  # type: ignore[no-any-return]
            storage=address, study_name=self.study, directions=["maximize", "minimize"], load_if_exists=True
        )

    def _next(self, optuna: Any, study: optuna.Study, owner: str, seed: int) -> list[optuna.Trial]:
        """The trials to evaluate next: those that a dead worker left first, then new ones up to the batch."""
        states = optuna.trial.TrialState
        known = study.get_trials(deepcopy=False)
        left = [trial for trial in known if trial.state == states.RUNNING and _is_dead(trial, owner)]
        trials = [optuna.Trial(study, trial._trial_id) for trial in left[: self.batch]]
        finished = sum(trial.state == states.COMPLETE for trial in known)
        failed = sum(trial.state == states.FAIL for trial in known)
        if failed > self.num_trials:
            raise RunError(f"at most {self.num_trials} trials may fail, but {failed} did; see the study's attributes.")
        alive = sum(trial.state == states.RUNNING for trial in known) - len(left)
        wanted = min(self.batch - len(trials), self.num_trials - finished - alive - len(trials))
        for _ in range(wanted):
            # A sampler for each trial, seeded by its number: a killed search asks again for what it would have asked.
            number = len(study.get_trials(deepcopy=False))
            study.sampler = self._make_sampler(optuna, derive_seed(seed, "sampler", number) % 2**32)
            trials.append(study.ask())
        for trial in trials:
            trial.set_user_attr("owner", owner)
            trial.set_user_attr("beat", time.time())
        return trials

    def _make_sampler(self, optuna: Any, seed: int) -> Any:
        if self.sampler == "nsga2":
            return optuna.samplers.NSGAIISampler(population_size=population_for(self.num_trials), seed=seed)
        startup = max(3, min(10, self.num_trials // 3))
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup)

    def _evaluate(
        self,
        optuna: Any,
        study: optuna.Study,
        trials: Sequence[optuna.Trial],
        bench: SequenceBench,
        run: Run,
        executor: Executor,
    ) -> None:
        tasks = []
        for trial in trials:
            sequence = self.space.suggest(trial, bench.stream.names)
            arguments = {
                "sequence": sequence.to_json(),
                "checkpoints": str(run.path / "checkpoints" / f"trial-{trial.number}"),
                "save": str(network_file(run.path, trial.number)) if self.keep else None,
            }
            tasks.append(Task(f"trial/{trial.number}", run_sequence, arguments))
        results: dict[str, dict[str, Any]] = {
            task.key: dict(run.records[task.key]) for task in tasks if task.key in run.records
        }
        missing = [task for task in tasks if task.key not in results]
        label, on_failure = "evaluating grow sequences", run.record_failure
        with _beating(trials):
            for task, result in executor.run(missing, bench, label=label, on_failure=on_failure):
                run.records.append(task.key, sequence=task.arguments["sequence"], **result)
                results[task.key] = result
                shutil.rmtree(str(task.arguments["checkpoints"]), ignore_errors=True)
        for trial, task in zip(trials, tasks, strict=True):
            result = results[task.key]
            for name in ("test_gain", "test_accuracy", "paper_gain", "bound_to", "expanded", "added"):
                trial.set_user_attr(name, result[name])
            trial.set_user_attr("sequence", task.arguments["sequence"])
            # Another worker may have taken the trial over and told it: the result is the same.
            with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError, ValueError):
                study.tell(trial.number, [result["gain"], result["parameters"]])
        front = {trial.number for trial in study.best_trials}
        for known in study.get_trials(deepcopy=False):
            if known.number not in front and known.state == optuna.trial.TrialState.COMPLETE:
                network_file(run.path, known.number).unlink(missing_ok=True)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        rows: every finished trial: ``trial``, ``sequence``, ``gain``, ``parameters``, ``test_gain``, ``test_accuracy``,
            ``on_front``, ``generation`` (of the population's size, counted from 0).
        folder: the run.
    """

    rows: list[dict[str, Any]]
    folder: Path

    @classmethod
    def of(cls, study: optuna.Study, folder: Path, population: int) -> SearchResult:
        """The result of a study."""
        finished = [trial for trial in study.get_trials(deepcopy=False) if trial.values is not None]
        points = [(float(trial.values[0]), float(trial.values[1])) for trial in finished]
        front = pareto_front(points)
        rows = [
            {
                "trial": trial.number,
                "gain": point[0],
                "parameters": int(point[1]),
                "on_front": place in front,
                "generation": place // population,
                **{name: trial.user_attrs.get(name) for name in ("sequence", "test_gain", "test_accuracy")},
                "bound_to": trial.user_attrs.get("bound_to"),
            }
            for place, (trial, point) in enumerate(zip(finished, points, strict=True))
        ]
        return cls(rows, folder)

    @property
    def front(self) -> list[dict[str, Any]]:
        """The Pareto front, the smallest network first; of equal points the first trial."""
        rows = sorted((row for row in self.rows if row["on_front"]), key=lambda row: (row["parameters"], row["trial"]))
        kept: dict[tuple[float, int], dict[str, Any]] = {}
        for row in rows:
            kept.setdefault((row["gain"], row["parameters"]), row)
        return list(kept.values())

    def sequence(self, trial: int) -> GrowSequence:
        """The grow sequence of a trial."""
        for row in self.rows:
            if row["trial"] == trial:
                return GrowSequence.from_json(row["sequence"])
        raise ConfigError(f"a trial must be one that finished, but got {trial}.")

    def network(self, trial: int) -> JointNetwork:
        """The joint network of a trial on the front, which takes further tasks.

        Raises:
            ConfigError: the trial is not on the front, so that its network was not kept.
        """
        self.sequence(trial)
        return JointNetwork.load(network_file(self.folder, trial))


def pareto_front(points: Sequence[tuple[float, float]]) -> set[int]:
    """Which points (gain, parameters) no other dominates: more gain is better, fewer parameters are.

    >>> sorted(pareto_front([(0.1, 10), (0.2, 20), (0.1, 30), (0.2, 20)]))
    [0, 1, 3]
    """
    return {place for place, point in enumerate(points) if not any(dominates(other, point) for other in points)}


def dominates(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether a point is no worse in both and better in one.

    >>> dominates((0.2, 10), (0.1, 10)), dominates((0.2, 10), (0.2, 10)), dominates((0.2, 11), (0.1, 10))
    (True, False, False)
    """
    return first[0] >= second[0] and first[1] <= second[1] and first != second


def network_file(folder: Path, trial: int) -> Path:
    """Where the network of a trial is kept."""
    return folder / "networks" / f"trial-{trial}.safetensors"


def import_optuna() -> Any:
    """Optuna, which is imported late because it is optional.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("Optuna", "optuna") from None
    return optuna


def _is_dead(trial: Any, owner: str) -> bool:
    """Whether a running trial was left: by this run itself, which is locked and evaluates none now, or in silence."""
    attributes: dict[str, Any] = trial.user_attrs
    if "owner" not in attributes:
        silent = time.time() - float(trial.datetime_start.timestamp())
    else:
        silent = time.time() - float(attributes.get("beat", 0.0))
    return bool(attributes.get("owner") == owner) or silent > STALE_SECONDS


@contextlib.contextmanager
def _beating(trials: Sequence[Any]) -> Iterator[None]:
    """Within the block, the trials say from time to time that they live."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            for trial in trials:
                # A storage that is out of reach for a moment must not end the work; the next beat may reach it.
                with contextlib.suppress(Exception):
                    trial.set_user_attr("beat", time.time())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _storage_errors(address: str) -> Iterator[None]:
    """Turn what a storage raises into one line."""
    try:
        import sqlalchemy.exc as sql
    except ImportError:  # a storage that needs no SQL
        yield
        return
    try:
        yield
    except (sql.ArgumentError, sql.NoSuchModuleError) as error:
        raise ConfigError(f"storage must be the address of an Optuna storage, but got {address!r}: {error}.") from None
    except (sql.SQLAlchemyError, ModuleNotFoundError) as error:
        line = str(error).splitlines()[0]
        raise RunError(f"the storage of the search cannot be used: {line}.") from error
