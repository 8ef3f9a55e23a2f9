"""How well short trainings rank what a staged search has left, by their recipe and their length; judged by the table.

``RAMET_DATA=... python -m benchmarks.short_trainings`` takes 24 of the 150 architectures of NAS-Bench-201 that scores
without training put first, 12 of the true top 1.5 % and 12 others, trains each as a search's stage ``short`` does, by
every recipe and length below, and appends the losses to ``results/short-trainings.jsonl``; what is there is left out.

The sample is drawn with the table in sight, and its seed is one of those that are there for choices: this is what a
recipe is chosen by (decision 108), and judges no search. Beside the validation loss stands that on the 10,000 test
images, which no search sees: where both rank alike, it is not the number of validation images that limits a stage.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.staged_search import IMAGES, SIZES, judged, known_lines
from ramet.data import load
from ramet.execution import Inline
from ramet.jobs.search.job import SearchRecipe
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Run
from ramet.searching import SearchPlan
from ramet.searching.costs import ArchCosts
from ramet.searching.staged.agreement import best_first
from ramet.searching.staged.budget import SearchBudget
from ramet.searching.staged.options import StagedOptions
from ramet.searching.staged.scored_pool import ScoredPool
from ramet.searching.staged.tasks import steps_of_epoch, validation
from ramet.searching.staged.work import RecordedWork
from ramet.seeding import derive_seed
from ramet.spaces import NasBench201
from ramet.training import fit

SEED, LISTED, EACH, TOP = 0, 150, 12, 0.015
ARMS: dict[str, tuple[str | None, int]] = {
    "crop and flip, 205 steps": ("crop:2+flip", 205),
    "crop and flip, 411 steps": ("crop:2+flip", 411),
    "images as they are, 411 steps": (None, 411),
    "crop and flip, 822 steps": ("crop:2+flip", 822),
}
RESULTS = Path(__file__).parents[1] / "results" / "short-trainings.jsonl"


def sample(space: NasBench201) -> list[str]:
    """Architectures by name: of the best by scores, as many of the truly best as of others."""
    setup = SupernetSetup(space, load("cifar10", seed=SEED, **IMAGES), recipe(None))
    plan = SearchPlan(staged=StagedOptions(minutes=20.0), seed=SEED)
    costs = ArchCosts(space, setup.data.train.x.shape[1:], setup.data.num_outputs)
    budget = SearchBudget(plan.staged, 1, steps_of_epoch(setup), lambda arch: costs("flops", arch))
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", "search", {}) as run:
        work = RecordedWork(setup, run, Inline())
        pool = ScoredPool(setup, plan, costs, budget, work, derive_seed(SEED, "staged"))
        pool.fill()
    names = [space.name(pool.archs[place]) for place in best_first(pool.order())[:LISTED]]
    tops = [judged(name)["cifar10_top"] for name in names]
    draw = np.random.default_rng(0)
    groups = ([n for n, t in zip(names, tops, strict=True) if (t <= TOP) == is_top] for is_top in (True, False))
    return [str(name) for group in groups for name in draw.choice(group, EACH, replace=False)]


def recipe(augment: str | None) -> SearchRecipe:
    """How an architecture is trained."""
    return SearchRecipe(weight_decay=5e-4, augment=augment)


def trained(space: NasBench201, name: str, augment: str | None, num_steps: int) -> dict[str, Any]:
    """How an architecture fares after a short training, as the stage trains it; all begin with the same weights."""
    data, arch = load("cifar10", seed=SEED, **IMAGES), space.parse(name)
    setup = SupernetSetup(space, data, recipe(augment))
    network, begun = setup.new_supernet(SEED, "alone"), time.process_time()
    seed = derive_seed(SEED, "alone", 0)
    x, y = data.train.x, data.train.y
    fit(network, x, y, setup.settings, seed=seed, arguments=lambda step: (arch,), num_steps=num_steps)
    seconds = round(time.process_time() - begun, 2)
    test = validation(replace(setup, data=replace(data, validation=data.test)), network, arch)
    return {**validation(setup, network, arch), "seconds": seconds, "steps": num_steps, "test_loss": test["loss"]}


def table_of(lines: list[dict[str, Any]]) -> str:
    """Kendall's tau with the true accuracy, over all and over the truly best, and where the first four stand."""
    rows = [
        "| training | architectures | tau | tau of the best | by test loss | the first four, true top % | CPU-s |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in ARMS:
        mine = [line for line in lines if line["arm"] == arm]
        if mine:
            best = [line for line in mine if line["cifar10_top"] <= TOP]
            first = sorted(mine, key=lambda line: line["loss"])[:4]
            seconds = np.mean([line["seconds"] for line in mine])
            tops = ", ".join(f"{100 * line['cifar10_top']:.2f}" for line in first)
            taus = f"{_tau(mine):.2f} | {_tau(best):.2f} | {_tau(mine, 'test_loss'):.2f}"
            rows.append(f"| {arm} | {len(mine)} | {taus} | {tops} | {seconds:.0f} |")
    return "\n".join(rows)


def _tau(lines: list[dict[str, Any]], loss: str = "loss") -> float:
    return float(kendalltau([-line[loss] for line in lines], [line["cifar10"] for line in lines]).statistic)


def main() -> None:
    """Train what is not known yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    space = NasBench201(**SIZES)
    known = {(line["arm"], line["arch"]) for line in known_lines(asked.results)}
    names = list(dict.fromkeys(arch for _, arch in known)) if len({a for _, a in known}) == 2 * EACH else sample(space)
    for arm in asked.arms:
        for name in names:
            if (arm, name) not in known:
                line = {"arm": arm, "arch": name, **judged(name), **trained(space, name, *ARMS[arm])}
                with open(asked.results, "a") as file:
                    file.write(json.dumps(line) + "\n")
    print(table_of(known_lines(asked.results)))


if __name__ == "__main__":
    main()
