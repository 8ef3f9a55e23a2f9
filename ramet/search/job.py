"""`ramet search` as a function: build what the options name, search, train what was found, write the report."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ramet.data import DataSet, Text, load, load_text, on_device
from ramet.errors import ConfigError, RametError, RunError
from ramet.execution import Executor, Task
from ramet.progress import progress
from ramet.ranking.bench import Bench
from ramet.reports.search import write_search_report
from ramet.runs import Run, ScalarMirror, remove_run, require_tensorboard
from ramet.runs.encoding import plain
from ramet.search.costs import ArchCosts, pareto_front
from ramet.search.final import export, train_final, trained_child
from ramet.search.loop import Search
from ramet.search.plan import SearchPlan
from ramet.search.relaxed import RelaxedSearch
from ramet.seeding import derive_seed
from ramet.spaces import SPACES, Arch, Recurrent, make_space
from ramet.training import Settings

KIND = "search"
Json = dict[str, Any]
TEXTS = ("ptb",)


@dataclass(frozen=True, kw_only=True)
class SearchJob:
    """Everything that a search depends on; its JSON is a run's ``config.json``.

    Args:
        space: the name of a space, or ``FILE.py:function``.
        space_options: arguments of the space.
        data: the name or the path of a data set; ``ptb``, or a folder of texts, for a space of language models.
        data_options: arguments of ``ramet.data.load`` or ``load_text``.
        settings: the numbers of a training: of the shared weights, and of the architectures found.
        plan: what is done.
        device: where tensors are.
    """

    space: str = "cells64"
    space_options: dict[str, Any] = field(default_factory=dict)
    data: str = "digits"
    data_options: dict[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    plan: SearchPlan = field(default_factory=SearchPlan)
    device: str = "cpu"

    def to_json(self) -> Json:
        """The job as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Json) -> SearchJob:
        """The job of a run's ``config.json``."""
        try:
            parts = {"settings": Settings(**values["settings"]), "plan": SearchPlan(**values["plan"])}
            return cls(**{**values, **parts})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"config.json must describe a search, but does not: {error}.") from None

    def build(self) -> Bench:
        """The space, the data and the settings; refuses whatever cannot work, before anything is written."""
        words = self.data in TEXTS or self.space == "recurrent"
        try:
            data: DataSet = load_text(self.data, **self.data_options) if words else load(self.data, **self.data_options)
        except TypeError as error:
            raise ConfigError(f"data_options must be options of the data set, but: {error}.") from None
        data = on_device(data, self.device)
        fitting = {"in_channels": data.in_channels, "num_classes": data.num_classes} if self.space not in SPACES else {}
        try:
            space = make_space(self.space, **(fitting | self.space_options))
        except RametError:
            raise
        except Exception as error:
            raise ConfigError(f"the function of {self.space} must run, but raises {error}.") from error
        if isinstance(space, Recurrent) != isinstance(data, Text):
            raise ConfigError(
                f"text is for the space recurrent and images for the others, got {self.space}, {self.data}."
            )
        bench = Bench(space, data, self.settings)
        self.plan.check(space)
        _loop(bench, self.plan)  # sharing, guard and budget are refused here, if they have to be
        return bench


def search(
    job: SearchJob,
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
) -> Json:
    """Search in a new run directory; gives the result, and leaves ``report.html`` and the network found beside it.

    Args:
        job: what is searched, and how.
        out: the run directory.
        executor: where the final trainings run; the search itself is one training.
        overwrite: replace a run that is there already.
        tensorboard: also write the numbers of the records as TensorBoard scalars.
        seconds_between_checkpoints: how much work a kill may cost; it has no influence on the result.
    """
    if tensorboard:
        require_tensorboard()
    bench = replace(job.build(), seconds_between_checkpoints=seconds_between_checkpoints)
    if overwrite:
        remove_run(out)
    with Run.create(out, KIND, job.to_json()) as run:
        return _search(job, bench, run, executor, tensorboard)


def resume(
    path: Path, executor: Executor, *, tensorboard: bool = False, seconds_between_checkpoints: float = 30.0
) -> Json:
    """Go on with a search that was interrupted; one that is finished gives its result again."""
    if tensorboard:
        require_tensorboard()
    with Run.open(path) as run:
        job = SearchJob.from_json(run.config)
        bench = replace(job.build(), seconds_between_checkpoints=seconds_between_checkpoints)
        return _search(job, bench, run, executor, tensorboard)


def _search(job: SearchJob, bench: Bench, run: Run, executor: Executor, tensorboard: bool) -> Json:
    setting = plain(bench.describe())
    if "setting" in run.records and run.records["setting"] != {"key": "setting", **setting}:
        raise ConfigError(f"a run goes on with what it began with, but the space or the data of {run.path} changed.")
    run.records.append("setting", **setting)
    bench = replace(bench, folder=run.path / "checkpoints")
    with closing(ScalarMirror(run)) if tensorboard else nullcontext():
        if "result" not in run.records:
            candidates = _candidates(bench, job.plan, run)
            finals = _finals(bench, job.plan, run, executor, candidates)
            run.records.append("result", **plain(_result(bench, job.plan, run, candidates, finals)))
        write_search_report(run.path)
        return {key: value for key, value in run.records["result"].items() if key != "key"}


def _loop(bench: Bench, plan: SearchPlan, **options: Any) -> Search | RelaxedSearch:
    return RelaxedSearch(bench, plan, **options) if plan.strategy == "darts" else Search(bench, plan, **options)


def _candidates(bench: Bench, plan: SearchPlan, run: Run) -> list[Json]:
    """What the search ends with, scored on the whole validation split, the best first."""
    if "candidates" not in run.records:
        with progress("searching", total=1.0) as bar:

            def show(share: float, text: str) -> None:
                bar.label = text
                bar.set(share)

            loop = _loop(bench, plan, record=run.records.append, checkpoints=run.checkpoints("search"), progress=show)
            archs = loop.run().derive(plan.num_candidates)
            scores = loop.score(archs)
        costs = ArchCosts(bench.space, bench.data.train.x.shape[1:], bench.data.num_classes)
        entries: list[Json] = [
            {"arch": list(arch), "name": bench.space.name(arch), "error": score.error}
            for arch, score in zip(archs, scores, strict=True)
            if score.error == score.error
        ]
        for entry in entries:
            arch = tuple(entry["arch"])
            entry.update(parameters=int(costs("params", arch)), flops=int(costs("flops", arch)))
        entries.sort(key=lambda entry: entry["error"])
        run.records.append("candidates", entries=plain(entries))
    entries = run.records["candidates"]["entries"]
    if not entries:
        raise RunError("at least one candidate must have a finite error, but all diverged: lower the learning rate.")
    return list(entries)


def _finals(bench: Bench, plan: SearchPlan, run: Run, executor: Executor, candidates: list[Json]) -> list[Json]:
    """The best candidates trained alone; each is tested once for each seed."""
    tasks = [
        Task(
            f"final/{place}/{number}",
            train_final,
            {"arch": entry["arch"], "seed": derive_seed(plan.seed, "final", number), "epochs": plan.final_epochs},
        )
        for place, entry in enumerate(candidates[: plan.num_final])
        for number in range(plan.final_seeds)
    ]
    missing = [task for task in tasks if task.key not in run.records]
    for task, result in executor.run(missing, bench, on_failure=run.record_failure):
        run.records.append(task.key, **result)
    return [run.records[task.key] | {"place": int(task.key.split("/")[1])} for task in tasks]


def _result(bench: Bench, plan: SearchPlan, run: Run, candidates: list[Json], finals: list[Json]) -> Json:
    best, exported = 0, False
    trained: list[Json] = []
    for place, entry in enumerate(candidates[: plan.num_final]):
        runs = [final for final in finals if final["place"] == place]
        errors = {split: sum(final[split] for final in runs) / len(runs) for split in ("validation", "test")}
        trained.append({"name": entry["name"], "arch": entry["arch"], **errors, "tests": [f["test"] for f in runs]})
    if trained:
        best = min(range(len(trained)), key=lambda place: float(trained[place]["validation"]))
    if trained and plan.exports:
        arch: Arch = tuple(candidates[best]["arch"])
        child = trained_child(bench, arch, derive_seed(plan.seed, "final", 0))
        exported = export(child, bench.data.validation.x[:2], run.path / "network.pt2")
    front = {
        cost: [
            candidates[place]["name"]
            for place in pareto_front([entry[cost] for entry in candidates], [-entry["error"] for entry in candidates])
        ]
        for cost in ("parameters", "flops")
    }
    epochs = [record for record in run.records if record["key"].startswith("epoch/")]
    return {
        "metric": "perplexity" if bench.data.train.y.ndim > 1 else "error",
        "best": candidates[best]["name"],
        "candidates": candidates,
        "trained": trained,
        "pareto": front,
        "epochs": len(epochs),
        "diverged": sum(len(record.get("diverged", [])) for record in epochs),
        "exported": "network.pt2" if exported else None,
        "plan": plan.describe(),
    }
