"""What ten minutes on two cores find in NAS-Bench-201: the staged search and what it has to beat, judged by the table.

``RAMET_DATA=... python -m benchmarks.staged_search`` runs every arm with the judged seeds and 1,200 CPU-seconds each,
appends a line for each to ``results/staged-search.jsonl``, leaves out what is there already, and prints the table
of what is there. ``--seeds 0 1 --arms staged`` runs a part. Runs lie under ``--work``; one that was killed goes on.

A seed changes everything: the split of the data, the weights, the draws. The table judges and is not read before an
arm has ended. Of the seeds only those of ``JUDGED`` had no part in any choice; the figures that count are theirs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data import data_folder, load
from ramet.execution import Inline, WorkItem
from ramet.jobs.search.job import SearchRecipe, search
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Run
from ramet.searching import SearchPlan, make_strategy
from ramet.searching.staged.options import StagedOptions
from ramet.searching.staged.tasks import train_rung
from ramet.spaces import NasBench201

CPU_SECONDS = 1200.0
SHORT_STEPS = 250
"""Of the baselines that train alone: two epochs."""
SIZES: dict[str, int] = {"channels": 8, "cells_per_stage": 5}
"""The benchmark's depth, half its width."""
IMAGES: dict[str, Any] = {"image_size": 16, "validation_fraction": 0.2}
JUDGED = (17, 18, 19, *range(21, 28))
"""Seeds up to 16, 20 and 100 were looked at before the search was changed (decisions 108, 110 and 113)."""
RESULTS = Path(__file__).parents[1] / "results" / "staged-search.jsonl"
COLUMNS = {name: f"{name}_test_acc_200ep" for name in ("cifar10", "cifar100", "imagenet16_120")}
Found = tuple[str, dict[str, Any]]
"""An architecture by name, and what else is to be known of a search."""


def staged(seed: int, work: Path) -> Found:
    """`ramet search --minutes 20` with one worker."""
    plan = SearchPlan(staged=StagedOptions(minutes=CPU_SECONDS / 60), num_final=0)
    space = NasBench201(**SIZES)
    result = search(space, "cifar10", plan=plan, recipe=recipe(), seed=seed, out=work, **IMAGES)
    with Run.open(work) as run:
        report, losses = run.records["staged/report"], losses_alone(space, run.records)
    stages = report["stages"]
    listed = {"stages": stages, "short_steps": report["short_steps"], "baselines": report["baselines"]}
    return result.best, listed | {"losses": losses, "cpu_seconds": sum(stage["cost"] for stage in stages)}


def losses_alone(space: NasBench201, records: Iterable[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """The validation losses of whatever a search trained alone, after each length of training, by name."""
    found: dict[str, list[float | None]] = {}
    for record in records:
        if match := re.fullmatch(r"staged/alone/(\d+)/(\d+)", record["key"]):
            name = space.name(space[int(match[2])])
            found.setdefault(name, []).append(record["loss"])
            assert len(found[name]) == int(match[1]) + 1, "a longer training comes after the shorter one"
    return found


def present(seed: int, work: Path) -> Found:
    """The search on shared weights of the whole space, at the command's own sizes, for about as long."""
    plan = SearchPlan(strategy="enas", epochs=150, warmup_epochs=30, num_final=0)
    begun = time.process_time()
    result = search(NasBench201(channels=8, cells_per_stage=1), "cifar10", plan=plan, seed=seed, out=work, **IMAGES)
    return result.best, {"cpu_seconds": time.process_time() - begun}


def alone(strategy: str) -> Callable[[int, Path], Found]:
    """Short trainings at the true depth of what a strategy proposes, the best validation loss of all."""

    def find(seed: int, work: Path) -> Found:
        setup = SupernetSetup(NasBench201(**SIZES), load("cifar10", seed=seed, **IMAGES), recipe())
        proposing = make_strategy(strategy, setup.space, seed=seed)
        best, spent, number = ("", np.inf), 0.0, 0
        with Run.open(work) if (work / "config.json").exists() else Run.create(work, "search", {}) as run:
            while spent < CPU_SECONDS:
                (arch,) = proposing.propose(1)
                task = WorkItem(str(number), train_rung, {"arch": list(arch), "seed": seed, "lengths": [SHORT_STEPS]})
                if task.key not in run.records:
                    ((_, given),) = Inline().run([task], setup)
                    run.records.append(task.key, **given)
                result = run.records[task.key]
                loss = np.inf if result["loss"] is None else result["loss"]
                proposing.observe([arch], [-min(loss, 100.0)])
                best = min(best, (setup.space.name(arch), loss), key=lambda pair: pair[1])
                spent, number = spent + result["seconds"], number + 1
        return best[0], {"cpu_seconds": spent, "trained": number}

    return find


def largest(seed: int, work: Path) -> Found:
    """The architecture of most multiply-adds: every edge a 3x3 convolution."""
    return NasBench201().name((3,) * 6), {"cpu_seconds": 0.0}


ARMS: dict[str, Callable[[int, Path], Found]] = {
    "staged": staged,
    "random": alone("random"),
    "evolution": alone("evolution:population_size=10,tournament_size=4"),
    "present": present,
    "largest": largest,
}


def recipe() -> SearchRecipe:
    """How everything is trained, by every arm: as the table's own networks were, in short and on small images."""
    return SearchRecipe(weight_decay=5e-4, augment="crop:2+flip")


def judged(name: str) -> dict[str, float]:
    """Of each column of the table the true accuracy, and the share of architectures that are at least as good."""
    with np.load(data_folder(None) / "nas" / "nasbench201.npz", allow_pickle=False) as table:
        row = list(table["arch"]).index(name)
        found = {}
        for data, column in COLUMNS.items():
            found[data] = round(float(table[column][row]), 3)
            found[f"{data}_top"] = float((table[column] >= table[column][row]).mean())
    return found


def known_lines(path: Path) -> list[dict[str, Any]]:
    """What was measured before."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table_of(lines: list[dict[str, Any]]) -> str:
    """The share of architectures at least as good as what each arm found, over seeds, in per cent."""
    rows = [
        "| arm | seeds | top, % (CIFAR-10) | worst | CIFAR-100 | ImageNet16-120 | CPU-s |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in ARMS:
        mine = [line for line in lines if line["arm"] == arm]
        if mine:
            tops = {data: [100 * line[f"{data}_top"] for line in mine] for data in COLUMNS}
            medians = {data: statistics.median(values) for data, values in tops.items()}
            seconds = statistics.mean(line["cpu_seconds"] for line in mine)
            rows.append(
                f"| {arm} | {len(mine)} | {medians['cifar10']:.2f} | {max(tops['cifar10']):.2f} | "
                f"{medians['cifar100']:.2f} | {medians['imagenet16_120']:.2f} | {seconds:.0f} |"
            )
    return "\n".join(rows)


def main() -> None:
    """Run what is asked for and not known yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(JUDGED))
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--work", type=Path, default=Path("runs") / "staged-search")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    for seed in asked.seeds:
        for arm in asked.arms:
            if any((line["seed"], line["arm"]) == (seed, arm) for line in known_lines(asked.results)):
                continue
            place = asked.work / f"{arm}-{seed}"
            name, about = ARMS[arm](seed, place)
            line = {"seed": seed, "arm": arm, "arch": name, **judged(name), **about}
            with open(asked.results, "a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
            shutil.rmtree(place / "checkpoints", ignore_errors=True)
    lines = known_lines(asked.results)
    print(table_of([line for line in lines if line["seed"] in JUDGED]))
    if development := [line for line in lines if line["seed"] not in JUDGED]:
        print("\nSeeds for choices:\n" + table_of(development))


if __name__ == "__main__":
    main()
