"""`ramet reproduce search/nasbench201`: searches in a space whose truth is a table, which only judges their finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ramet.data import data_folder, load, on_device
from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.training_free import combine_ranks
from ramet.ranking.truth import read_table
from ramet.runs import Run
from ramet.runs.atomic import write_atomically, writing
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator
from ramet.spaces import NasBench201, Space
from ramet_papers.nasbench201.presets import PRESETS, TablePreset
from ramet_papers.nasbench201.tables import Judge, finds_table, rankings_table
from ramet_papers.nasbench201.tasks import count_costs, score_free, train_alone, train_and_search
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Outcome, Workspace

TABLE = "nas/nasbench201.npz"
COLUMN = "cifar10_test_acc_200ep"
PART = 500
"""Architectures that one task gives training-free scores."""


@dataclass(frozen=True)
class Measured:
    """All that was measured; nothing of it depends on the table.

    Args:
        ranked: indices of the architectures over which rankings are compared.
        pool: indices of the architectures that have training-free scores; ``ranked`` are among them.
        listed: the best of the pool by both training-free rankings, the best first.
        costs: ``parameters`` and ``flops`` of every architecture of the space.
        free: ``synflow`` and ``jacobian`` of the pool.
        free_seconds: CPU seconds of each training-free score of the whole pool.
        supernets: for each guard and seed what ``train_and_search`` gave; scores are of ``ranked``, then of ``listed``.
        finals: validation accuracy, trained alone, of the architectures of the highest combined ranking, by index.
        final_seconds: CPU seconds of nothing but these trainings.
    """

    ranked: list[int]
    pool: list[int]
    listed: list[int]
    costs: dict[str, Floats]
    free: dict[str, Floats]
    free_seconds: dict[str, float]
    supernets: dict[str, list[Json]]
    finals: dict[int, float]
    final_seconds: float


def judged_searches(workspace: Workspace, preset_name: str) -> Outcome:
    """Which rankings agree with the 200-epoch accuracy, and how good the architectures are that searches find.

    Supernets, strategies, guards, training-free scores and their combination, which is fixed beforehand (the mean rank,
    each with the same weight), never see the table: it only judges. The result is kept as
    ``search-nasbench201-PRESET.json`` beside the claims.
    """
    preset = PRESETS[preset_name]
    options = dict(preset.data_options) | {"seed": workspace.seed}
    if workspace.data_dir is not None:
        options["data_dir"] = str(workspace.data_dir)
    space = NasBench201(**preset.space_options)
    table = data_folder(workspace.data_dir) / TABLE
    truth = read_table(f"{table}:{COLUMN}", space, range(len(space))).mean  # a missing table is refused before the work
    setup = SupernetSetup(space, on_device(load(preset.data, **options), workspace.device), preset.settings)
    config: Json = {"preset": json.loads(json.dumps(asdict(preset))), "seed": workspace.seed}
    config["data"] = setup.data.fingerprint()
    path = workspace.runs / f"search-nasbench201-{preset_name}-{digest_of(config)}"
    with open_recorded(path, "search-nasbench201", config) as run:
        measured = measure_all(workspace, replace(setup, folder=path / "checkpoints"), preset, run)
    judge = Judge(truth, numpy_generator(workspace.seed, "judge"))
    tables = [rankings_table(measured, judge), finds_table(measured, judge)]
    outcome = Outcome("Searches judged by NAS-Bench-201's table", tables, [], _notes(measured, preset, judge))
    with writing(workspace.results):
        workspace.results.mkdir(parents=True, exist_ok=True)
        text = json.dumps(outcome.to_json() | {"command": _command(preset_name)}, indent=1) + "\n"
        write_atomically(workspace.results / f"search-nasbench201-{preset_name}.json", text.encode())
    return outcome


def measure_all(workspace: Workspace, setup: SupernetSetup, preset: TablePreset, run: Run) -> Measured:
    """Training-free scores, then supernets and strategies, then the best combined architectures trained alone."""
    space = setup.space
    ranked, pool = _draw(space, preset, workspace.seed)
    seed = derive_seed(workspace.seed, "training-free")
    parts = [pool[start : start + PART] for start in range(0, len(pool), PART)]
    tasks = [
        WorkItem(f"free/{number}", score_free, {"scored": part, "num_inputs": preset.num_inputs, "seed": seed})
        for number, part in enumerate(parts)
    ]
    results = finish_tasks(run, workspace.executor, tasks, setup, "scoring without training").values()
    free = {name: np.array([v for result in results for v in result[name]]) for name in ("synflow", "jacobian")}
    free_seconds = {name: sum(result["seconds"][name] for result in results) for name in free}
    order = np.argsort(-combine_ranks(free.values()), kind="stable")
    listed = [pool[place] for place in order[: preset.num_listed]]

    tasks = [
        WorkItem(
            f"supernet/{guard}/{number}",
            train_and_search,
            {
                "name": f"supernet-{guard.replace(':', '-')}-{number}",
                "guard": guard,
                "seed": derive_seed(workspace.seed, "supernet", number),
                "scored": [*ranked, *listed],
                "num_queries": preset.num_queries,
                "strategy_options": {name: dict(values) for name, values in preset.strategy_options.items()},
            },
        )
        for number in range(preset.seeds)
        for guard in preset.guards
    ]
    trained = finish_tasks(run, workspace.executor, tasks, setup, "training supernets")
    supernets = {
        guard: [trained[f"supernet/{guard}/{number}"] for number in range(preset.seeds)] for guard in preset.guards
    }
    counts = finish_tasks(run, workspace.executor, [WorkItem("costs", count_costs, {})], setup, "counting")["costs"]
    counted = {name: added_costs(counts[name]) for name in ("parameters", "flops")}
    measured = Measured(ranked, pool, listed, counted, free, free_seconds, supernets, {}, 0.0)

    plain = np.mean([result["scores"][len(ranked) :] for result in supernets[preset.guards[0]]], axis=0)
    best = np.argsort(-measured_combination(measured, plain), kind="stable")[: preset.num_final]
    tasks = [
        WorkItem(
            f"final/{listed[place]}",
            train_alone,
            {
                "arch": list(space[listed[place]]),
                "seed": derive_seed(workspace.seed, "final"),
                "epochs": preset.final_epochs,
            },
        )
        for place in best
    ]
    finals = finish_tasks(run, workspace.executor, tasks, setup, "training the best alone")
    found = {listed[place]: float(finals[f"final/{listed[place]}"]["accuracy"]) for place in best}
    return replace(measured, finals=found, final_seconds=sum(final["seconds"] for final in finals.values()))


def measured_combination(measured: Measured, supernet: Floats) -> Floats:
    """The combined ranking of the listed architectures: synflow, Jacobian and supernet, each with the same weight."""
    places = {index: place for place, index in enumerate(measured.pool)}
    rows = [places[index] for index in measured.listed]
    return combine_ranks([supernet, *(scores[rows] for scores in measured.free.values())])


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
    finals = measured.finals
    answer = max(finals, key=lambda index: finals[index])
    standing = judge.top_share(answer)
    cost = sum(measured.free_seconds.values()) + measured.final_seconds
    cost += sum(sum(_paid(result)) for result in measured.supernets[preset.guards[0]])
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


def _paid(result: Json) -> Sequence[float]:
    return result["seconds"]["training"], result["seconds"]["scoring"]


def _command(preset_name: str) -> str:
    return f"ramet reproduce search/nasbench201 --preset {preset_name}"
