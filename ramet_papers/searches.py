"""Searches as tasks of a reproduction: run, gone on with or only read, and compared with and without a guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ramet.execution import WorkItem, make_executor
from ramet.fields import to_json
from ramet.jobs.runner import resume, start
from ramet.jobs.search import SearchJob
from ramet.ranking.metrics import Floats
from ramet.registry import Spec, parse_spec
from ramet.runs import read_records
from ramet.runs.encoding import Json
from ramet.searching.final import train_final
from ramet.searching.strategies import EnasController, RandomSearch
from ramet.seeding import derive_seed
from ramet_papers.experiment import Preset
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Workspace

AFFORDABLE = 0.05
"""The share of the highest reward that the choice of a strength may cost."""

DIFFERENCES = {"difference_mean": "mean", "difference_best5": "best five", "difference_max": "largest"}


@dataclass(frozen=True, kw_only=True)
class GuardedSearches(Preset):
    """A search that is done with and without a guard; its runs are called by its name."""

    job: SearchJob  # the unguarded search
    guard: str = "plasticity"  # the guard that is compared, with options but without a strength
    strengths: tuple[float, ...]  # of the guard, from weak to strong; see ``strongest_affordable``
    tuning_seeds: int = 1  # other seeds, on which the strength is chosen
    num_random: int = 20  # architectures drawn uniformly that what is found is compared with
    remark: str = ""  # what a reader of its figures should know

    def of(self, seed: int, guard: str, phase: str = "reported") -> SearchJob:
        """The search of one seed under one guard; with and without it, all else is the same."""
        plan = replace(self.job.plan, guard=guard, exports=False)
        data_options = replace(self.job.data_options, seed=self.job.seed)  # all seeds search on the same images
        return replace(self.job, plan=plan, data_options=data_options, seed=derive_seed(seed, phase))


def guard_at(guard: str, strength: float) -> str:
    """A guard's text with a strength.

    >>> guard_at("plasticity:fall_from=0.5,fall_to=1", 60.0)
    'plasticity:60:fall_from=0.5,fall_to=1'
    """
    spec = parse_spec(guard)
    options = str(Spec("", options=spec.options)) if spec.options else ""
    return f"{spec.name}:{strength:g}{options}"


def enas(preset: str, **changed: Any) -> str:
    """The controller of ENAS with the options of one of its presets, some of them changed."""
    return str(Spec("enas", options=EnasController.PRESETS[preset] | changed))


def with_data(job: SearchJob, workspace: Workspace) -> SearchJob:
    """The job on the workspace's data folder and device."""
    data_options = replace(job.data_options, data_dir=workspace.data_folder)
    return replace(job, data_options=data_options, device=workspace.device)


def with_space(job: SearchJob, **options: Any) -> SearchJob:
    """The job with further options of its space."""
    assert isinstance(job.space, str)
    return replace(job, space=str(parse_spec(job.space).with_options(options)))


def run_search(context: object, *, job: Json, out: str) -> Json:
    """One search as a task: its result and the records of its epochs."""
    path, executor = Path(out), make_executor(1)
    if (path / "config.json").exists():
        result = resume(path, executor)
    else:
        result = start(SearchJob.from_json(job), path, executor)
    assert result is not None
    epochs = [record for record in read_records(path) if record["key"].startswith("epoch/")]
    return {"result": result.to_json(), "epochs": epochs, "warmup": SearchJob.from_json(job).plan.guarded_from}


def run_searches(workspace: Workspace, name: str, jobs: Mapping[str, SearchJob]) -> dict[str, Json]:
    """The searches of a study by their labels; each has a run named by what is asked, and is never done twice."""
    tasks = []
    for label, job in jobs.items():
        asked = {key: value for key, value in job.to_json().items() if key != "device"}
        asked["data_options"] = {key: value for key, value in asked["data_options"].items() if key != "data_dir"}
        out = workspace.runs / name / f"{label.replace(' ', '-').replace(':', '-')}-{digest_of(asked)}"
        tasks.append(WorkItem(label, run_search, {"job": with_data(job, workspace).to_json(), "out": str(out)}))
    return {task.key: result for task, result in workspace.executor.run(tasks, None, label=f"searching, {name}")}


def tune_and_compare(
    workspace: Workspace, study: GuardedSearches
) -> tuple[str, dict[float, float], list[tuple[Json, Json]]]:
    """Choose the guard's strength on other seeds by its reward, then search with and without it on the reported ones.

    Returns:
        The guard, the reward of each strength in the second half of a search, and for each seed the search without and
        with the guard.
    """

    def searches(label: str, guard: str, num: int, phase: str = "reported") -> dict[str, SearchJob]:
        return {f"{label} {n}": study.of(derive_seed(workspace.seed, n), guard, phase) for n in range(num)}

    rewards: dict[float, float] = {}
    if len(study.strengths) > 1:
        rows = {
            s: searches(f"tuning {s:g}", guard_at(study.guard, s), study.tuning_seeds, "tuning")
            for s in study.strengths
        }
        found = run_searches(workspace, study.name, {label: job for row in rows.values() for label, job in row.items()})
        rewards = {s: float(np.mean([late_reward(found[label]) for label in row])) for s, row in rows.items()}
    guard = guard_at(study.guard, strongest_affordable(rewards) if rewards else study.strengths[0])
    without, guarded = (searches(kind, kind, study.seeds) for kind in ("none", guard))
    in_turn = [item for pair in zip(without.items(), guarded.items(), strict=True) for item in pair]
    results = run_searches(workspace, study.name, dict(in_turn))
    return guard, rewards, [(results[a], results[b]) for a, b in zip(without, guarded, strict=True)]


def strongest_affordable(rewards: Mapping[float, float]) -> float:
    """The last strength that costs little reward: a guard should hold what it can, and the highest reward is noisy.

    Args:
        rewards: of each strength, from weak to strong.

    >>> strongest_affordable({60.0: 0.50, 1e4: 0.48, 1e6: 0.36})
    10000.0
    """
    limit = (1 - AFFORDABLE) * max(rewards.values())
    return [strength for strength, reward in rewards.items() if reward >= limit][-1]


def guarded_epochs(run: Json) -> list[Json]:
    """The epochs after the warm-up, in which a guard acts if there is one."""
    return [epoch for epoch in run["epochs"] if int(epoch["key"].split("/")[1]) >= run["warmup"]]


def late_reward(run: Json) -> float:
    """The mean reward of the second half of the epochs that have one."""
    rewards = _rewards(run)
    return float(np.mean(rewards[len(rewards) // 2 :]))


def early_reward(run: Json) -> float:
    """The mean reward of the first half of the epochs that have one; NaN of a single epoch, which has no first half."""
    rewards = _rewards(run)
    return float(np.mean(rewards[: len(rewards) // 2])) if len(rewards) > 1 else float("nan")


def _rewards(run: Json) -> list[float]:
    return [epoch["reward"] for epoch in run["epochs"] if epoch["reward"] is not None]


def guard_strengths(run: Json) -> tuple[float, ...]:
    """The strength of weight plasticity, alpha, in each epoch that it acts in."""
    return tuple(epoch["guard"]["alpha"] for epoch in guarded_epochs(run) if "alpha" in (epoch["guard"] or {}))


def mean_difference(run: Json, key: str) -> float:
    """An error difference, the mean over the guarded epochs."""
    return float(np.mean([epoch[key] for epoch in guarded_epochs(run) if epoch[key] is not None]))


def differences(pairs: Sequence[tuple[Json, Json]], key: str) -> Floats:
    """An error difference of each seed, without and with the guard; shape [seeds, 2]."""
    return np.array([[mean_difference(run, key) for run in pair] for pair in pairs])


def reduction(without: float, guarded: float) -> float:
    """By what share a difference is lower; meant for a positive one, which is what forgetting is."""
    return (without - guarded) / abs(without) if without else float("nan")


def final_error(run: Json) -> float:
    """The test error, or perplexity, of the architecture found, trained alone."""
    trained = run["result"]["trained"]
    best = min(trained, key=lambda entry: float(entry["validation"]))
    return float(best["test"])


def train_random(workspace: Workspace, study: GuardedSearches) -> Floats:
    """The test errors of architectures drawn uniformly, each trained alone as the found one is; shape [count]."""
    job, count = with_data(study.job, workspace), study.num_random
    config: Json = {"job": study.job.to_json() | {"device": "cpu"}, "count": count, "seed": workspace.seed}
    path = workspace.runs / study.name / f"random-{digest_of(config)}"
    setup = job.build()
    strategy = RandomSearch(setup.space, seed=derive_seed(workspace.seed, "random architectures"))
    tasks = [
        WorkItem(
            f"random/{number}",
            train_final,
            {
                "arch": list(arch),
                "seed": derive_seed(workspace.seed, "random", number),
                "epochs": job.plan.final_epochs,
                "final_network": to_json(job.plan.final_network),
                "recipe": job.plan.final_recipe,
            },
        )
        for number, arch in enumerate(strategy.propose(count))
    ]
    with open_recorded(path, "random", config) as run:
        found = finish_tasks(run, workspace.executor, tasks, setup, "training random architectures")
    return np.array([found[task.key]["test"] for task in tasks])
