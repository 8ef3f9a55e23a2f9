"""The search for grow sequences with Optuna: two objectives, a Pareto front, any storage, able to go on."""

from __future__ import annotations

import math
import re
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import Stream
from ramet.continual.study.leases import END, ERROR, SUPERFLUOUS, TrialLeases, finished_elsewhere
from ramet.continual.study.plan import SequencePlan, population_for
from ramet.continual.study.result import FoundSequences, network_file
from ramet.continual.study.sequences import SequenceSetup, measure_on_test, run_sequence, train_alone
from ramet.continual.study.storage import StudyStorage, digest, import_optuna
from ramet.continual.study.suggestions import Replayed, make_nsga2
from ramet.continual.study.thompson.proposals import Seen, propose
from ramet.errors import ConfigError, DiskError, RunError
from ramet.execution import Executor, WorkItem
from ramet.progress import Bar, progress
from ramet.runs import Run, differences
from ramet.runs.identity import as_before
from ramet.seeding import derive_seed, numpy_generator
from ramet.training import Metric, Settings
from ramet.training.recipe import FIRST_FIELDS, Recipe

if TYPE_CHECKING:
    import optuna

_MAX_FAILURES = 3

Arguments = ParamSpec("Arguments")
Given = TypeVar("Given")


def _also_as_skeleton(method: Callable[Arguments, Given]) -> Callable[Arguments, Given]:
    """Takes the template by the name that it had when it was always a skeleton, too."""

    @wraps(method)
    def called(*given: Arguments.args, **named: Arguments.kwargs) -> Given:
        if "skeleton" in named:
            named["template"] = named.pop("skeleton")
        return method(*given, **named)

    return called


@dataclass(frozen=True, kw_only=True)
class SequenceSearch(SequencePlan):
    """The search that a plan describes.

    Trials are judged on validation data. The points of the front are measured on test data, once, at the end. With a
    coefficient for each task, the first trials are those of one coefficient for all, unless the sampler is ``random``.
    """

    def check(self, setup: SequenceSetup) -> None:
        """Refuse, before a run is made, a storage that does not work, or a study of another setting."""
        import_optuna()
        if self.storage:
            StudyStorage(self.storage).check(self.study, self._setting(setup), self._former_setting(setup))

    @_also_as_skeleton
    def run(
        self,
        stream: Stream,
        template: Template,
        settings: Settings,
        run: Run,
        executor: Executor,
        *,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        device: str = "cpu",
        seconds_between_checkpoints: float = 30.0,
    ) -> FoundSequences:
        """Search, or go on with a search; the scenario is the paper's second: all tasks' data stay there."""
        optuna = import_optuna()
        batch = self._drawn_together(run, executor)
        folder = run.path / "networks"
        setup = SequenceSetup(
            stream,
            template,
            settings,
            seed,
            folder,
            options or {},
            device=device,
            seconds_between_checkpoints=seconds_between_checkpoints,
            identity=run.identity,
        )
        storage = StudyStorage(self.storage or f"sqlite:///{(run.path / 'study.db').absolute()}")
        with storage.failures():
            former = self._former_setting(setup)
            study = storage.join(self.study, self._setting(setup), former, may_adopt=not self.storage)
            leases = TrialLeases(study, storage, self._member(run, study), self.silence)
        setup = replace(setup, alone=self._alone(setup, run, executor))
        for left in folder.glob("alone-*.saves"):  # of trainings that are recorded: a disk refused to remove it then
            shutil.rmtree(left, ignore_errors=True)
        with storage.failures(), progress("grow sequences", total=self.num_trials) as bar:
            while not self._is_over(optuna, study, bar, setup.metric):
                with finished_elsewhere():  # the rest of a batch is then what this run left, and is taken up again
                    trials = self._next(optuna, leases, setup, batch)
                    if trials:
                        self._evaluate(leases, trials, setup, run, executor)
                    else:  # other runs have the last ones: wait, in case that they die
                        time.sleep(min(2.0, self.silence / 6))
            for trial in leases.left(leases.known()):
                leases.fail(trial, SUPERFLUOUS)
            result = FoundSequences.of(study, run.path, population_for(self.num_trials))
        return self._tested(result, setup, run, executor)

    def _setting(self, setup: SequenceSetup) -> dict[str, str]:
        """What all trials of a study have in common, as digests by name."""
        return {
            "stream": setup.stream.fingerprint(),
            "network": digest(_alike_everywhere(setup.template.to_json())),
            "settings": digest(differences(setup.settings, defaults_of=Recipe)),
            "method": digest(dict(setup.options)),
            "seed": digest(setup.seed),
            "space": digest(differences(self.space)),
        }

    def _former_setting(self, setup: SequenceSetup) -> dict[str, str]:
        """The digests of studies from before they were made of what differs from the defaults."""
        return {
            "settings": digest(as_before(setup.settings, FIRST_FIELDS)),
            "space": digest(as_before(self.space, ("delta", "step", "binding", "order"))),
        }

    def _drawn_together(self, run: Run, executor: Executor) -> int:
        """The trials of a batch; a run that was begun with more or fewer workers keeps what it began with."""
        if self.batch is not None:
            return self.batch
        if "batch" not in run.records:
            by_workers = self.storage or self.sampler in ("gp", "thompson")
            run.records.append("batch", trials=executor.num_workers if by_workers else population_for(self.num_trials))
        return int(run.records["batch"]["trials"])

    def _member(self, run: Run, study: optuna.Study) -> str:
        """The name of the run among those that share the study; a study that was made anew is refused."""
        identity = study.user_attrs["id"]
        if "member" not in run.records:
            run.records.append("member", name=uuid.uuid4().hex, study=identity)
        if run.records["member"]["study"] != identity:
            raise ConfigError(f"a run goes on with the study it began with, but that of {run.path} is another now.")
        return str(run.records["member"]["name"])

    def _alone(self, setup: SequenceSetup, run: Run, executor: Executor) -> dict[str, dict[str, float]]:
        """The metric of the tasks alone, from the records where they are known."""
        names = setup.stream.names
        items = [WorkItem(f"alone/{name}", train_alone, {"task": name}) for name in names]
        _record(items, setup, run, executor, "training each task alone", on_failure=run.record_failure)
        records = {name: run.records[f"alone/{name}"] for name in names}
        return {
            role: {name: float(record[role]) for name, record in records.items()} for role in ("validation", "test")
        }

    def _is_over(self, optuna: Any, study: optuna.Study, bar: Bar, metric: Metric) -> bool:
        """Whether all trials are finished; says how far they are, and the best so far."""
        states = optuna.trial.TrialState
        known = study.get_trials(deepcopy=False)
        done = [trial for trial in known if trial.state == states.COMPLETE]
        errors = [trial.user_attrs[ERROR] for trial in known if trial.user_attrs.get(ERROR, SUPERFLUOUS) != SUPERFLUOUS]
        if len(errors) >= _MAX_FAILURES and len(errors) > 2 * len(done):
            raise RunError(f"most trials must finish, but {len(errors)} failed and {len(done)} did not; {errors[-1]}")
        if done:
            best = max(done, key=lambda trial: (trial.values[0], -trial.values[1]))
            gain = best.values[0]
            words = f"{100 * gain:+.2f} points" if metric.is_share else f"{gain:+.3g} of {metric.name}"
            bar.label = (
                f"grow sequences, {len(done)} of {self.num_trials}; best gain {words} "
                f"with {best.values[1]:,.0f} parameters"
            )
        bar.set(len(done))
        return len(done) >= self.num_trials

    def _next(self, optuna: Any, leases: TrialLeases, setup: SequenceSetup, batch: int) -> list[optuna.Trial]:
        """The trials to evaluate next: those that this run left when it was killed, or a batch of others."""
        states = optuna.trial.TrialState
        leases.requeue_dead()
        known = [trial for trial in leases.known() if trial.state != states.WAITING]
        left = leases.left(known)
        held = sum(trial.state in (states.COMPLETE, states.RUNNING) for trial in known)
        # What was left is the rest of a batch, which is asked for, and told, as if it had never been interrupted.
        end = max((int(trial.user_attrs[END]) for trial in left), default=len(known) + batch)
        wanted = min(end - len(known), self.num_trials - held)
        trials = [leases.take_up(trial) for trial in left]
        given = partial(self._given, setup)
        asked = [leases.ask(len(known) + wanted if not left else end, given) for _ in range(wanted)]
        return trials + (leases.give_back_superfluous(asked, self.num_trials) if self.storage else asked)

    def _given(self, setup: SequenceSetup, known: Sequence[Any]) -> Mapping[str, float | str]:
        """The parameters of the next trial that are not left to Optuna's sampler."""
        tasks = setup.stream.names
        starts = [] if self.sampler == "random" else self.space.starts(tasks, setup.base)
        if len(known) < len(starts):
            return starts[len(known)]
        if self.sampler != "thompson":
            return {}
        # From finished trials only, and by the number: drawn again after a kill, it is the same.
        generator = numpy_generator(setup.seed, "proposal", len(known))
        return propose(self.space, tasks, Seen.of(known), generator, setup.base)

    def _make_sampler(self, optuna: Any, seed: int) -> Any:
        if self.sampler in ("random", "thompson"):  # the second gives all parameters when a trial is asked for
            return optuna.samplers.RandomSampler(seed=seed)
        if self.sampler == "nsga2":
            return make_nsga2(population_for(self.num_trials), seed)
        startup = max(3, min(10, self.num_trials // 3))
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup)

    def _suggest(self, leases: TrialLeases, trials: Sequence[optuna.Trial], setup: SequenceSetup) -> list[Any]:
        """The sequence of each trial, as JSON; those of a batch that was interrupted are drawn as before."""
        known = [trial.user_attrs.get("sequence") for trial in trials]
        if all(sequence is not None for sequence in known):
            return known
        optuna, study = import_optuna(), leases.study
        sequences = []
        for place, trial in enumerate(trials):
            # One sampler for the batch, by its last number. But a Gaussian process looks at running trials too, and
            # has to look at each as if the later ones were not there yet; each has a sampler of its own.
            if self.sampler == "gp" or place == 0:
                number = trial.number if self.sampler == "gp" else int(trials[-1].user_attrs[END]) - 1
                study.sampler = self._make_sampler(optuna, derive_seed(setup.seed, "sampler", number) % 2**32)
            if self.sampler == "gp" and known[place] is not None:
                sequences.append(known[place])
                continue
            sequence = self.space.suggest(Replayed(trial), setup.stream.names, setup.base).to_json()
            trial.set_user_attr("sequence", sequence)
            sequences.append(sequence)
        return sequences

    def _evaluate(
        self, leases: TrialLeases, trials: Sequence[optuna.Trial], setup: SequenceSetup, run: Run, executor: Executor
    ) -> None:
        with leases.beating(trials):
            sequences = self._suggest(leases, trials, setup)
            tasks = [
                WorkItem(f"trial/{trial.number}", attempt, self._arguments(run, trial.number, sequence))
                for trial, sequence in zip(trials, sequences, strict=True)
            ]
            results = {task.key: dict(run.records[task.key]) for task in tasks if task.key in run.records}
            missing = [task for task in tasks if task.key not in results]
            for task, result in executor.run(
                missing, setup, label="evaluating a batch of them", on_failure=run.record_failure
            ):
                run.records.append(task.key, sequence=task.arguments["sequence"], **result)
                results[task.key] = result
            for trial, task in zip(trials, tasks, strict=True):
                self._tell(leases, trial, results[task.key])
                shutil.rmtree(str(task.arguments["checkpoints"]), ignore_errors=True)
        front = {trial.number for trial in leases.study.best_trials}
        _keep_networks(run, front)

    def _arguments(self, run: Run, number: int, sequence: Any) -> dict[str, Any]:
        return {
            "sequence": sequence,
            "checkpoints": str(run.path / "checkpoints" / f"trial-{number}"),
            "save": None if self.networks == "none" else str(network_file(run.path, number)),
        }

    def _tell(self, leases: TrialLeases, trial: optuna.Trial, result: dict[str, Any]) -> None:
        if "error" in result:
            leases.fail(trial, result["error"])
            return
        for name in ("paper_gain", "bound_to", "expanded", "added", "gains"):
            with finished_elsewhere():
                trial.set_user_attr(name, result[name])
        leases.tell(trial, [result["gain"], result["parameters"]])

    def _tested(self, result: FoundSequences, setup: SequenceSetup, run: Run, executor: Executor) -> FoundSequences:
        """The result with the figures of the front on test data; networks that other runs have are trained again."""
        if self.networks == "none":
            return result
        front = {row["trial"]: row["sequence"] for row in result.front}
        if self.networks == "front":
            missing = [
                WorkItem(f"network/{number}", attempt, self._arguments(run, number, sequence))
                for number, sequence in front.items()
                if not network_file(run.path, number).exists()
            ]
            for task, _ in executor.run(missing, setup, label="training networks that other runs found"):
                shutil.rmtree(str(task.arguments["checkpoints"]), ignore_errors=True)
        here = [number for number in front if network_file(run.path, number).exists()]
        files = {number: {"file": str(network_file(run.path, number))} for number in here}
        items = [WorkItem(f"test/{number}", measure_on_test, file) for number, file in files.items()]
        _record(items, setup, run, executor, "testing the front")
        _keep_networks(run, set(front))
        names = ("test_gain", "test_accuracy")
        return result.tested({n: {name: run.records[f"test/{n}"][name] for name in names} for n in here})


def attempt(setup: SequenceSetup, *, sequence: Mapping[str, Any], checkpoints: str, save: str | None) -> dict[str, Any]:
    """A trial: what a sequence gives on validation data, or why it gives nothing, which ends no other trial."""
    try:
        found = run_sequence(setup, sequence=sequence, checkpoints=checkpoints, save=save, blind=True)
        if not math.isfinite(found["gain"]):  # a perplexity may be as large as that
            return {"error": f"a gain must be finite, but is {found['gain']}."}
        return found
    except DiskError:  # no fault of the sequence's: the run ends, and this trial is taken up again
        raise
    except RunError as error:
        return {"error": str(error)}


def _alike_everywhere(template: Mapping[str, Any]) -> dict[str, Any]:
    """What a template is, the same on machines that have the file of its function in different folders."""
    source = template.get("network")  # a chain of layers has none
    return dict(template) | ({"network": re.split(r"[/\\]", source)[-1]} if source else {})


def _record(
    items: Sequence[WorkItem], setup: SequenceSetup, run: Run, executor: Executor, label: str, **options: Any
) -> None:
    """Do what the records do not have yet, and record it."""
    missing = [item for item in items if item.key not in run.records]
    for item, result in executor.run(missing, setup, label=label, **options):
        run.records.append(item.key, **result)


def _keep_networks(run: Run, front: set[int]) -> None:
    """Remove the networks of trials that are not on the front."""
    kept = {network_file(run.path, number) for number in front}
    for path in (run.path / "networks").glob("trial-*.safetensors"):
        if path not in kept:
            path.unlink(missing_ok=True)
