"""`ramet reproduce search/nasbench201`: searches in a space whose truth is a table, which only judges their finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ramet.data import data_folder
from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.ranking.scores.aggregate import combine_ranks
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.truth import read_table
from ramet.runs.atomic import write_atomically, writing
from ramet.runs.encoding import Json, plain
from ramet.seeding import derive_seed, numpy_generator
from ramet.spaces import NasBench201, Space
from ramet_papers.experiment import Experiment, Outcome, Trials
from ramet_papers.nasbench201.presets import PRESETS, TablePreset
from ramet_papers.nasbench201.tables import Judge, Measured, finds_table, rankings_table
from ramet_papers.nasbench201.tasks import count_costs, score_free, train_alone, train_and_search
from ramet_papers.recorded import digest_of

TABLE = "nas/nasbench201.npz"
COLUMN = "cifar10_test_acc_200ep"
PART = 500
"""Architectures that one task gives training-free scores."""


def judged_searches(experiment: Experiment) -> Outcome:
    """Which rankings agree with the 200-epoch accuracy, and how good the architectures are that searches find.

    Supernets, strategies, guards, training-free scores and their combination, which is fixed beforehand (the mean rank,
    each with the same weight), never see the table: it only judges. The result is kept as
    ``search-nasbench201-PRESET.json`` beside the claims.
    """
    workspace, name = experiment.workspace, f"search-nasbench201-{experiment.preset_name}"
    preset = PRESETS[experiment.preset_name]
    space = NasBench201(**preset.space_options)
    table = data_folder(workspace.data_dir) / TABLE
    truth = read_table(f"{table}:{COLUMN}", space, range(len(space))).mean  # a missing table is refused before the work
    setup = SupernetSetup(space, workspace.load(preset.data, preset.data_options), preset.settings)
    config: Json = plain({"preset": preset.asked(), "seed": workspace.seed, "data": setup.data.fingerprint()})
    path = workspace.runs / f"{name}-{digest_of(config)}"
    trials = Trials(workspace, path, config, replace(setup, folder=path / "checkpoints"), "search-nasbench201")
    measured = measure_all(trials, preset)
    judge = Judge(truth, numpy_generator(workspace.seed, "judge"))
    tables = [rankings_table(measured, judge), finds_table(measured, judge)]
    outcome = Outcome("Searches judged by NAS-Bench-201's table", tables, [], _notes(measured, preset, judge))
    with writing(workspace.results):
        workspace.results.mkdir(parents=True, exist_ok=True)
        text = json.dumps(outcome.to_json() | {"command": experiment.command}, indent=1) + "\n"
        write_atomically(workspace.results / f"{name}.json", text.encode())
    return outcome


def measure_all(trials: Trials, preset: TablePreset) -> Measured:
    """Training-free scores, then supernets and strategies, then the best combined architectures trained alone."""
    space, run_seed = trials.setup.space, trials.workspace.seed
    ranked, pool = _draw(space, preset, run_seed)
    asked: Json = {"num_inputs": preset.num_inputs, "seed": derive_seed(run_seed, "training-free")}
    parts = [pool[start : start + PART] for start in range(0, len(pool), PART)]
    tasks = [WorkItem(f"free/{n}", score_free, {"scored": part, **asked}) for n, part in enumerate(parts)]
    results = trials.in_order(tasks, "scoring without training")
    free = {name: np.array([v for result in results for v in result[name]]) for name in ("synflow", "jacobian")}
    free_seconds = {name: sum(result["seconds"][name] for result in results) for name in free}
    order = np.argsort(-combine_ranks(free.values()), kind="stable")
    listed = [pool[place] for place in order[: preset.num_listed]]

    asked = {"scored": [*ranked, *listed], "num_queries": preset.num_queries}
    asked["strategy_options"] = {name: dict(values) for name, values in preset.strategy_options.items()}

    def supernet(guard: str, number: int) -> WorkItem:
        name, seed = f"supernet-{guard.replace(':', '-')}-{number}", derive_seed(run_seed, "supernet", number)
        return WorkItem(
            f"supernet/{guard}/{number}", train_and_search, {"name": name, "guard": guard, "seed": seed, **asked}
        )

    by_seed = {n: [supernet(guard, n) for guard in preset.guards] for n in range(preset.seeds)}  # seeds first
    trained = trials.finish(by_seed, "training supernets")
    supernets = {guard: [trained[n][place] for n in by_seed] for place, guard in enumerate(preset.guards)}
    (counts,) = trials.in_order([WorkItem("costs", count_costs, {})], "counting")
    counted = {name: added_costs(counts[name]) for name in ("parameters", "flops")}
    measured = Measured(ranked, pool, listed, counted, free, free_seconds, supernets, {}, 0.0)

    plain_scores = np.mean([result["scores"][len(ranked) :] for result in supernets[preset.guards[0]]], axis=0)
    best = np.argsort(-measured.combined(plain_scores), kind="stable")[: preset.num_final]
    asked = {"seed": derive_seed(run_seed, "final"), "epochs": preset.final_epochs}
    chosen = [listed[place] for place in best]
    tasks = [WorkItem(f"final/{index}", train_alone, {"arch": list(space[index]), **asked}) for index in chosen]
    finals = trials.in_order(tasks, "training the best alone")
    found = {index: float(final["accuracy"]) for index, final in zip(chosen, finals, strict=True)}
    return replace(measured, finals=found, final_seconds=sum(final["seconds"] for final in finals))


def added_costs(counted: Sequence[Sequence[float]]) -> Floats:
    """The cost of every architecture, in order, from what ``count_costs`` counted."""
    total: NDArray[np.float64] = np.full(1, counted[0][0])  # all first options
    for costs in counted:
        total = np.add.outer(total, np.array(costs) - costs[0]).reshape(-1)
    return total


def _draw(space: Space, preset: TablePreset, seed: int) -> tuple[list[int], list[int]]:
    """The architectures that are ranked, and those that get training-free scores, all in order."""
    order = numpy_generator(seed, "architectures").permutation(len(space))
    num_free = len(space) if preset.num_free is None else max(preset.num_free, preset.num_ranked)
    return sorted(map(int, order[: preset.num_ranked])), sorted(map(int, order[:num_free]))


def _notes(measured: Measured, preset: TablePreset, judge: Judge) -> list[str]:
    answer = measured.answer
    standing = judge.top_share(answer)
    cost = sum(measured.free_seconds.values()) + measured.final_seconds
    seconds = [result["seconds"] for result in measured.supernets[preset.guards[0]]]
    cost += sum(of_run["training"] + of_run["scoring"] for of_run in seconds)
    words = "reached" if standing <= 0.01 else "not reached"
    return [
        f"NAS-Bench-201 {dict(preset.space_options)} on {preset.data} {dict(preset.data_options)}; "
        f"{preset.settings.epochs} epochs, {preset.seeds} supernets a guard, {len(measured.ranked)} architectures "
        f"ranked, {len(measured.pool)} scored without training, {preset.num_queries} queries a strategy. "
        "Intervals resample architectures. The table is never seen by a search.",
        "The parameter count is what a ranking has to beat.",
        f"The answer, by combined ranking and then by validation accuracy trained alone for {preset.final_epochs} "
        f"epochs: true accuracy {judge.truth[answer]:.2f} %, in the true top {100 * standing:.2f} %, after "
        f"{cost / 60:.0f} CPU-minutes. The goal, the top 1 % within an hour on two cores, is {words}.",
    ]
