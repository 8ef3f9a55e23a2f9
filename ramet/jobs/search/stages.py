"""The stages of a search: candidates on shared weights, final trainings, what is left of them."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from torch import nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError, RunError
from ramet.execution import WorkItem
from ramet.exporting import write_network
from ramet.exporting.card import Card, described_inputs
from ramet.fields import to_json
from ramet.jobs.job import Session
from ramet.jobs.search.result import usual_figures
from ramet.progress import progress
from ramet.ranking.scores.jacobian import JacobianCovariance
from ramet.ranking.scores.synflow import Synflow
from ramet.ranking.setup import SupernetSetup
from ramet.reports.metric import MetricFigures
from ramet.runs import Run
from ramet.runs.encoding import Json, encode, plain
from ramet.searching.baselines import baselines
from ramet.searching.costs import ArchCosts, pareto_front
from ramet.searching.final import train_final, trained_child
from ramet.searching.loop import Search
from ramet.searching.measures import other_metric
from ramet.searching.plan import SearchPlan
from ramet.searching.relaxed import RelaxedSearch
from ramet.searching.staged.search import StagedSearch
from ramet.seeding import derive_seed
from ramet.spaces import Arch

FREE_INPUTS = 32
"""Training images at which the candidates' Jacobians are taken."""


def make_loop(setup: SupernetSetup, plan: SearchPlan, **options: Any) -> Search | RelaxedSearch:
    """The search that a plan asks for; it refuses what does not fit the space."""
    return RelaxedSearch(setup, plan, **options) if plan.is_relaxed else Search(setup, plan, **options)


def derived_of(loop: Search | RelaxedSearch, plan: SearchPlan) -> list[Arch]:
    """What a search ends with: architectures that its space lets stand, each once."""
    space = loop.setup.space
    return list(dict.fromkeys(space.derived(arch) for arch in loop.run().derive(plan.num_candidates)))


class Stages:
    """All of a search that a run's records do not hold yet; a rank that is not the leader has no run and one stage."""

    def __init__(self, setup: SupernetSetup, plan: SearchPlan, session: Session) -> None:
        self.setup, self.plan, self.session = setup, plan, session
        metric, y = other_metric(setup.settings, setup.data.train.y), setup.data.train.y
        self.described: Json = {} if metric is None else metric.told()
        usual = "perplexity" if y.ndim > 1 else "error"
        self.metric = MetricFigures(**self.described) if self.described else usual_figures(usual)

    def __call__(self) -> Json | None:
        """The result as JSON values; none on a rank that is not the leader."""
        ranks = self.session.ranks
        run: Run | None = self.session.run
        if ranks.size > 1:
            number = int(self.setup.fingerprint(), 16) >> 2
            ranks.check_same(number, "all ranks must have the same space, data and settings")
        if self.plan.is_staged and ranks.size > 1:
            raise ConfigError(
                "torchrun is for one supernet, a staged search has many trainings: use --workers, or --strategy enas."
            )
        is_due = ranks.tell(b"due" if run is not None and "candidates" not in run.records else b"") == b"due"
        if run is None:
            if is_due:
                loop = make_loop(self.setup, self.plan, ranks=ranks)
                loop.score(derived_of(loop, self.plan))
            return None
        self.setup = replace(self.setup, folder=run.path / "checkpoints", identity=run.identity)
        if is_due:
            run.records.append("candidates", entries=plain(self._candidates(run)))
        ranks.leave()  # what follows are independent trainings, which the executor has
        if "result" in run.records:
            return run.records["result"]
        candidates = list(run.records["candidates"]["entries"])
        if not candidates:
            raise RunError(
                f"at least one candidate must have a finite {self.metric.name}, but all diverged: lower the learning "
                "rate."
            )
        finals = self._finals(run, candidates)
        compared = self._baselines(run, candidates, finals)
        result = self._result(run, candidates, finals) | compared
        return result | self._short_names(result)

    def _short_names(self, result: Json) -> Json:
        """Short names of all architectures that the result names, where theirs are long."""
        space = self.setup.space
        if not space.legend():
            return {"short_names": {}, "legend": []}
        names = [entry["name"] for entry in result["candidates"]]
        names += [entry["architecture"] for entry in result["baselines"]]
        return {"short_names": {name: space.short_name(space.parse(name)) for name in names}, "legend": space.legend()}

    def _candidates(self, run: Run) -> list[Json]:
        """What the search ends with, scored on the whole validation split, the best first."""
        if self.plan.is_staged:
            return self._staged(run)
        setup = self.setup
        with progress("searching", total=1.0) as bar:

            def show(share: float, text: str) -> None:
                bar.label = text
                bar.set(share)

            places: Json = {"record": run.records.append, "checkpoints": run.checkpoints("search"), "progress": show}
            loop = make_loop(setup, self.plan, ranks=self.session.ranks, **places)
            archs = derived_of(loop, self.plan)
            scores = loop.score(archs)
        costs = ArchCosts(setup.space, setup.data.train.x.shape[1:], setup.data.num_outputs)
        entries: list[Json] = [
            {"arch": list(arch), "name": setup.space.name(arch), "error": score.error}
            for arch, score in zip(archs, scores, strict=True)
            if score.error == score.error
        ]
        for entry in entries:
            arch = tuple(entry["arch"])
            entry.update(parameters=int(costs("params", arch)), flops=int(costs("flops", arch)))
        free = self._free_scores([tuple(entry["arch"]) for entry in entries])
        entries = [entry | scored for entry, scored in zip(entries, free, strict=True)]
        return sorted(entries, key=lambda entry: -self.metric.value(float(entry["error"])))

    def _staged(self, run: Run) -> list[Json]:
        """What a search in stages ends with, the best first; what its stages cost and said goes into a record."""
        space = self.setup.space
        say = partial(self._say, "stage")
        search = StagedSearch(self.setup, self.plan, run, self.session.executor, say=say)
        search.run()
        run.records.append(
            "staged/report",
            stages=plain(search.stages()),
            unit=search.budget.unit,
            budget=search.budget.amount,
            short_steps=search.budget.short_steps,
            workers=search.budget.workers,
            baselines=plain(search.baseline_entries()),
            found=plain(search.short_errors()),
        )
        entries: list[Json] = []
        for place in search.order()[: self.plan.num_candidates]:
            arch = search.pool[place]
            scores = {name: float(values[place]) for name, values in search.free.items()}
            entries.append(
                {
                    "arch": list(arch),
                    "name": space.name(arch),
                    "error": search.errors.get(place),
                    "parameters": int(search.costs("params", arch)),
                    "flops": int(search.costs("flops", arch)),
                    "steps": search.steps_of(place),
                    "short_error": search.first_errors.get(place),
                    **{name: _finite(scores.get(name)) for name in ("synflow", "jacobian")},
                }
            )
        return entries

    def _say(self, event: str, line: str) -> None:
        self.session.notify(event, {"line": line})

    def _free_scores(self, archs: list[Arch]) -> list[Json]:
        """Training-free scores of each candidate, for the report alone; none where a network cannot be scored so."""
        nothing: Json = {"synflow": None, "jacobian": None}
        x = self.setup.data.train.x[:FREE_INPUTS]
        if not x.is_floating_point():
            return [nothing for _ in archs]
        try:
            network = self.setup.drawn_supernet(self.plan.seed, "training-free")
            flow, jacobian = Synflow(network, x.shape[1:]), JacobianCovariance(network, x)
            scored = [{"synflow": flow(arch), "jacobian": jacobian(arch)} for arch in archs]
        except Exception:  # a user's own network may do anything, and a search is not lost for want of these
            return [nothing for _ in archs]
        return [{name: _finite(value) for name, value in scores.items()} for scores in scored]

    def _baselines(self, run: Run, candidates: list[Json], finals: list[Json]) -> Json:
        """What needed no search beside what was found, and what the stages of a search cost and said."""
        if self.plan.is_staged:
            return self._staged_comparison(run, candidates, finals)
        plan, space = self.plan, self.setup.space
        nothing: Json = {"baselines": [], "compared": "", "stages": [], "unit": "", "allowed": None}
        if plan.without_baselines or not finals:
            return nothing
        costs = ArchCosts(space, self.setup.data.train.x.shape[1:], self.setup.data.num_outputs)
        if "baselines" not in run.records:  # a latency is not measured the same twice
            named = baselines(self.setup, plan, costs)
            run.records.append("baselines", archs={name: list(arch) for name, arch in named.items()})
        archs: dict[str, list[int]] = run.records["baselines"]["archs"]
        known = {tuple(entry["arch"]): f"final/{place}/0" for place, entry in enumerate(candidates[: plan.num_final])}
        keys = {name: known.get(tuple(arch), f"baseline/{space.index(tuple(arch))}") for name, arch in archs.items()}
        tasks = {key: self._final_task(key, archs[name], 0) for name, key in keys.items()}
        missing = [task for key, task in tasks.items() if key not in run.records]
        options: Json = {"label": "training what needed no search, alone", "on_failure": run.record_failure}
        for task, result in self.session.executor.run(missing, self.setup, **options):
            run.records.append(task.key, **result)
        best = self._best_place(candidates, finals)
        found = next(final["validation"] for final in finals if final["place"] == best)
        entries = [
            self._baseline(name, tuple(arch), costs, run.records[keys[name]]["validation"], found)
            for name, arch in archs.items()
        ]
        epochs = "1 epoch" if plan.final_epochs == 1 else f"{plan.final_epochs} epochs"
        return nothing | {"baselines": entries, "compared": f"each trained alone once for {epochs}"}

    def _baseline(self, name: str, arch: Arch, costs: ArchCosts, error: float | None, found: float | None) -> Json:
        return {
            "name": name,
            "architecture": self.setup.space.name(arch),
            "parameters": int(costs("params", arch)),
            "flops": int(costs("flops", arch)),
            "error": _finite(error),
            "found": _finite(found),
        }

    def _staged_comparison(self, run: Run, candidates: list[Json], finals: list[Json]) -> Json:
        report = run.records["staged/report"]
        best = candidates[self._best_place(candidates, finals)]
        found = next((error for arch, error in report["found"] if arch == best["arch"]), None)
        entries = [
            {key: value for key, value in entry.items() if key not in ("arch", "loss")}
            | {"architecture": self.setup.space.name(tuple(entry["arch"])), "found": _finite(found)}
            for entry in report["baselines"]
            if entry["error"] is not None
        ]
        return {
            "baselines": entries,
            "compared": f"each trained alone for the same {report['short_steps']} steps",
            "stages": report["stages"],
            "unit": report["unit"],
            "allowed": report["budget"],
        }

    def _best_place(self, candidates: list[Json], finals: list[Json]) -> int:
        """Of the candidates, the one that is best on validation data when trained alone; the first, if none was."""
        means: dict[int, list[float]] = {}
        for final in finals:
            means.setdefault(final["place"], []).append(float(final["validation"]))
        if not means:
            return 0
        return max(means, key=lambda place: self.metric.value(sum(means[place]) / len(means[place])))

    def _final_task(self, key: str, arch: list[int], number: int) -> WorkItem:
        plan = self.plan
        return WorkItem(
            key,
            train_final,
            {
                "arch": arch,
                "seed": derive_seed(plan.seed, "final", number),
                "epochs": plan.final_epochs,
                "final_network": to_json(plan.final_network),
                "recipe": plan.final_recipe,
            },
        )

    def _finals(self, run: Run, candidates: list[Json]) -> list[Json]:
        """The best candidates trained alone; each is tested once for each seed."""
        plan = self.plan
        tasks = [
            self._final_task(f"final/{place}/{number}", entry["arch"], number)
            for place, entry in enumerate(candidates[: plan.num_final])
            for number in range(plan.final_seeds)
        ]
        missing = [task for task in tasks if task.key not in run.records]
        options: Json = {"label": "training the best candidates alone", "on_failure": run.record_failure}
        for task, result in self.session.executor.run(missing, self.setup, **options):
            run.records.append(task.key, **result)
        return [run.records[task.key] | {"place": int(task.key.split("/")[1])} for task in tasks]

    def _result(self, run: Run, candidates: list[Json], finals: list[Json]) -> Json:
        """Everything that ``SearchResult`` has."""
        setup, plan = self.setup, self.plan
        best, problem = self._best_place(candidates, finals), "it was not asked for"
        trained: list[Json] = []
        for place, entry in enumerate(candidates[: plan.num_final]):
            runs = [final for final in finals if final["place"] == place]
            errors = {split: sum(final[split] for final in runs) / len(runs) for split in ("validation", "test")}
            trained.append({"name": entry["name"], "arch": entry["arch"], **errors, "tests": [f["test"] for f in runs]})
        if trained and plan.exports:
            arch: Arch = tuple(candidates[best]["arch"])
            seed = derive_seed(plan.seed, "final", 0)
            child = trained_child(setup, arch, seed, to_json(plan.final_network), plan.final_recipe)
            problem = self._write(child, run, trained[best])
        # Longer trainings have smaller errors: only those that are as long say who is better for the cost.
        compared = [(entry, _finite(entry.get("short_error", entry["error"]))) for entry in candidates]
        scored = [entry for entry, error in compared if error is not None]
        rewards = [self.metric.value(error) for _, error in compared if error is not None]
        front = {
            cost: [scored[place]["name"] for place in pareto_front([entry[cost] for entry in scored], rewards)]
            for cost in ("parameters", "flops")
        }
        epochs = [record for record in run.records if record["key"].startswith("epoch/")]
        return {
            "metric": self.metric.name,
            **({"measure": self.described} if self.described else {}),
            "best": candidates[best]["name"],
            "candidates": candidates,
            "trained": trained,
            "pareto": front,
            "epochs": len(epochs),
            "diverged": sum(len(record.get("diverged", [])) for record in epochs),
            "exported": "network.pt2" if (run.path / "network.pt2").exists() else None,
            "not_exported": problem,
            "cells": [asdict(cell) for cell in setup.space.graph(tuple(candidates[best]["arch"]))],
            "plan": plan.describe(),
        }

    def _write(self, child: nn.Module, run: Run, entry: Json) -> str:
        """Write the best network with its card; gives why a file is missing, or nothing."""
        setup, plan, data = self.setup, self.plan, self.setup.data
        metric = self.metric.name
        x = data.validation.x
        card = Card(
            title=f"{entry['name']}, found in {type(setup.space).__name__}",
            network={"parameters": count_parameters(child), "architecture": entry["name"]},
            inputs=described_inputs(x.shape[1:], data, x.dtype),
            data=data.facts(),
            figures={
                f"{metric} on validation data, mean of {plan.final_seeds} trainings": entry["validation"],
                f"{metric} on test data, mean of {plan.final_seeds} trainings": entry["test"],
            },
            made={
                "search": encode(plain(plan.describe())),
                "recipe": encode(setup.settings.to_json()),
                "seed": plan.seed,
            },
        )
        options: Json = {"input_shape": x.shape[1:], "dtype": x.dtype, "onnx": plan.onnx, "card": card}
        return write_network(child, run.path / "network", **options)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
