"""`ramet search` as a function: build what the options name, search, train what was found, write the report."""

from __future__ import annotations

import math
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ramet.data import DataSet, Text, load, load_text, on_device
from ramet.errors import ConfigError, RametError, RunError
from ramet.execution import Executor, WorkItem
from ramet.execution.ranks import ALONE, Ranks
from ramet.progress import progress
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.training_free import JacobianCovariance, Synflow
from ramet.reports.search import write_search_report
from ramet.runs import Run, ScalarMirror, remove_run, require_tensorboard
from ramet.runs.encoding import Json, decode, encode, plain
from ramet.searching.costs import ArchCosts, pareto_front
from ramet.searching.final import export, train_final, trained_child
from ramet.searching.loop import Search
from ramet.searching.plan import SearchPlan
from ramet.searching.recipe import Recipe
from ramet.searching.relaxed import RelaxedSearch
from ramet.seeding import derive_seed
from ramet.spaces import SPACES, Arch, make_space, takes_text
from ramet.training import Settings

KIND = "search"
TEXTS = ("ptb",)
FREE_INPUTS = 32
"""Training images at which the candidates' Jacobians are taken."""


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
        """The job as JSON values; a plain final training is left out, so that older runs keep their names."""
        values = asdict(self)
        if not values["plan"]["final_recipe"]:
            del values["plan"]["final_recipe"]
        return values

    @classmethod
    def from_json(cls, values: Json) -> SearchJob:
        """The job of a run's ``config.json``."""
        try:
            parts = {"settings": Settings(**values["settings"]), "plan": SearchPlan(**values["plan"])}
            return cls(**{**values, **parts})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"config.json must describe a search, but does not: {error}.") from None

    def build(self) -> SupernetSetup:
        """The space, the data and the settings; refuses whatever cannot work, before anything is written."""
        words = self.data in TEXTS or takes_text(self.space)
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
        if space.takes_text != isinstance(data, Text):
            raise ConfigError(
                f"text is for spaces of language models and images for the others, got {self.space}, {self.data}."
            )
        setup = SupernetSetup(space, data, self.settings)
        self.plan.check(space)
        Recipe.from_json(self.plan.final_recipe).check(space, tuple(data.train.x.shape[1:]))
        _loop(setup, self.plan)  # sharing, guard and budget are refused here, if they have to be
        return setup


def search(
    job: SearchJob,
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
    ranks: Ranks = ALONE,
) -> Json:
    """Search in a new run directory; gives the result, and leaves ``report.html`` and the network found beside it.

    Args:
        job: what is searched, and how.
        out: the run directory.
        executor: where the final trainings run; the search itself is one training.
        overwrite: replace a run that is there already.
        tensorboard: also write the numbers of the records as TensorBoard scalars.
        seconds_between_checkpoints: how much work a kill may cost; it has no influence on the result.
        ranks: the processes that train the shared weights together. All of them call this with the same job. Only the
            leader writes and trains the architectures found; the others return an empty result after the search.
    """
    if tensorboard:
        require_tensorboard()
    setup = ranks.agree(lambda: _build(job, seconds_between_checkpoints, ranks))

    def create() -> Run | None:
        if not ranks.is_leader:
            return None
        if overwrite:
            remove_run(out)
        return Run.create(out, KIND, job.to_json())

    with ranks.agree(create) or nullcontext() as run:
        return _search(job, setup, run, executor, tensorboard, ranks)


def resume(
    path: Path,
    executor: Executor,
    *,
    tensorboard: bool = False,
    seconds_between_checkpoints: float = 30.0,
    ranks: Ranks = ALONE,
) -> Json:
    """Go on with a search that was interrupted; one that is finished gives its result again.

    The number of ranks may be another than before. Only the leader needs the run directory.
    """
    if tensorboard:
        require_tensorboard()
    with ranks.agree(lambda: Run.open(path) if ranks.is_leader else None) or nullcontext() as run:
        config = ranks.tell(b"" if run is None else encode(run.config).encode())
        job = SearchJob.from_json(decode(config))
        setup = ranks.agree(lambda: _build(job, seconds_between_checkpoints, ranks))
        return _search(job, setup, run, executor, tensorboard, ranks)


def _build(job: SearchJob, seconds_between_checkpoints: float, ranks: Ranks) -> SupernetSetup:
    setup = replace(job, device=ranks.device(job.device)).build()
    return replace(setup, seconds_between_checkpoints=seconds_between_checkpoints)


def _search(
    job: SearchJob, setup: SupernetSetup, run: Run | None, executor: Executor, tensorboard: bool, ranks: Ranks
) -> Json:
    """All of a search that its records do not hold yet; ``run`` is none on a rank that is not the leader."""
    if ranks.size > 1:
        ranks.check_same(int(setup.fingerprint(), 16) >> 2, "all ranks must have the same space, data and settings")
    ranks.agree(lambda: _check_setting(setup, run))
    is_due = ranks.tell(b"due" if run is not None and "candidates" not in run.records else b"") == b"due"
    if run is None:
        if is_due:
            loop = _loop(setup, job.plan, ranks=ranks)
            loop.score(loop.run().derive(job.plan.num_candidates))
        return {}
    setup = replace(setup, folder=run.path / "checkpoints")
    with closing(ScalarMirror(run)) if tensorboard else nullcontext():
        if is_due:
            run.records.append("candidates", entries=plain(_candidates(setup, job.plan, run, ranks)))
        ranks.leave()  # what follows are independent trainings, which the executor has
        if "result" not in run.records:
            candidates = list(run.records["candidates"]["entries"])
            if not candidates:
                raise RunError(
                    "at least one candidate must have a finite error, but all diverged: lower the learning rate."
                )
            finals = _finals(setup, job.plan, run, executor, candidates)
            run.records.append("result", **plain(_result(setup, job.plan, run, candidates, finals)))
        write_search_report(run.path)
        return {key: value for key, value in run.records["result"].items() if key != "key"}


def _check_setting(setup: SupernetSetup, run: Run | None) -> None:
    if run is not None:
        setting = plain(setup.describe())
        if "setting" in run.records and run.records["setting"] != {"key": "setting", **setting}:
            raise ConfigError(
                f"a run goes on with what it began with, but the space or the data of {run.path} changed."
            )
        run.records.append("setting", **setting)


def _loop(setup: SupernetSetup, plan: SearchPlan, **options: Any) -> Search | RelaxedSearch:
    return RelaxedSearch(setup, plan, **options) if plan.is_relaxed else Search(setup, plan, **options)


def _candidates(setup: SupernetSetup, plan: SearchPlan, run: Run, ranks: Ranks) -> list[Json]:
    """What the search ends with, scored on the whole validation split, the best first."""
    with progress("searching", total=1.0) as bar:

        def show(share: float, text: str) -> None:
            bar.label = text
            bar.set(share)

        places: Json = {"record": run.records.append, "checkpoints": run.checkpoints("search"), "progress": show}
        loop = _loop(setup, plan, ranks=ranks, **places)
        archs = loop.run().derive(plan.num_candidates)
        scores = loop.score(archs)
    costs = ArchCosts(setup.space, setup.data.train.x.shape[1:], setup.data.num_classes)
    entries: list[Json] = [
        {"arch": list(arch), "name": setup.space.name(arch), "error": score.error}
        for arch, score in zip(archs, scores, strict=True)
        if score.error == score.error
    ]
    for entry in entries:
        arch = tuple(entry["arch"])
        entry.update(parameters=int(costs("params", arch)), flops=int(costs("flops", arch)))
    free = _free_scores(setup, plan, [tuple(entry["arch"]) for entry in entries])
    entries = [entry | scored for entry, scored in zip(entries, free, strict=True)]
    return sorted(entries, key=lambda entry: float(entry["error"]))


def _free_scores(setup: SupernetSetup, plan: SearchPlan, archs: list[Arch]) -> list[Json]:
    """Training-free scores of each candidate, for the report alone; none where a network cannot be scored so."""
    nothing: Json = {"synflow": None, "jacobian": None}
    x = setup.data.train.x[:FREE_INPUTS]
    if not x.is_floating_point():
        return [nothing for _ in archs]
    try:
        network = setup.new_supernet(plan.seed, "training-free")
        flow, jacobian = Synflow(network, x.shape[1:]), JacobianCovariance(network, x)
        scored = [{"synflow": flow(arch), "jacobian": jacobian(arch)} for arch in archs]
    except Exception:  # a user's own network may do anything, and a search is not lost for want of these
        return [nothing for _ in archs]
    return [{name: value if math.isfinite(value) else None for name, value in scores.items()} for scores in scored]


def _finals(setup: SupernetSetup, plan: SearchPlan, run: Run, executor: Executor, candidates: list[Json]) -> list[Json]:
    """The best candidates trained alone; each is tested once for each seed."""
    tasks = [
        WorkItem(
            f"final/{place}/{number}",
            train_final,
            {
                "arch": entry["arch"],
                "seed": derive_seed(plan.seed, "final", number),
                "epochs": plan.final_epochs,
                "recipe": plan.final_recipe,
            },
        )
        for place, entry in enumerate(candidates[: plan.num_final])
        for number in range(plan.final_seeds)
    ]
    missing = [task for task in tasks if task.key not in run.records]
    for task, result in executor.run(missing, setup, on_failure=run.record_failure):
        run.records.append(task.key, **result)
    return [run.records[task.key] | {"place": int(task.key.split("/")[1])} for task in tasks]


def _result(setup: SupernetSetup, plan: SearchPlan, run: Run, candidates: list[Json], finals: list[Json]) -> Json:
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
        child = trained_child(setup, arch, derive_seed(plan.seed, "final", 0), plan.final_recipe)
        exported = export(child, setup.data.validation.x[:2], run.path / "network.pt2")
    front = {
        cost: [
            candidates[place]["name"]
            for place in pareto_front([entry[cost] for entry in candidates], [-entry["error"] for entry in candidates])
        ]
        for cost in ("parameters", "flops")
    }
    epochs = [record for record in run.records if record["key"].startswith("epoch/")]
    return {
        "metric": "perplexity" if setup.data.train.y.ndim > 1 else "error",
        "best": candidates[best]["name"],
        "candidates": candidates,
        "trained": trained,
        "pareto": front,
        "epochs": len(epochs),
        "diverged": sum(len(record.get("diverged", [])) for record in epochs),
        "exported": "network.pt2" if exported else None,
        "cells": [asdict(cell) for cell in setup.space.graph(tuple(candidates[best]["arch"]))],
        "operations": list(getattr(setup.space, "operations", ())),
        "plan": plan.describe(),
    }
