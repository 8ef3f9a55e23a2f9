"""How much an architecture's size tells beside the loss of a short training; judged by NAS-Bench-201's table.

``python -m benchmarks.size_beside_loss`` takes what the staged search's benchmark and that of short trainings have left
in ``results/``, and prints for each seed and each length of training Kendall's tau between the truth and *loss + weight
x size*: both around their median in units of their spread among the seed's shortest trainings, as the search has it.
``--run DIR --seed N`` takes in what a run of the benchmark holds that was stopped before its end.

Decision 110 has its weight from the seeds that are there for choices; those of ``JUDGED`` stand apart.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from benchmarks.staged_search import JUDGED, SIZES, judged, known_lines, losses_alone
from benchmarks.staged_search import RESULTS as SEARCHES
from ramet.runs import read_records
from ramet.searching.costs import ArchCosts
from ramet.searching.staged.agreement import centred, spread
from ramet.spaces import NasBench201

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
RESULTS = SEARCHES.with_name("size-beside-loss.jsonl")
SHORT = SEARCHES.with_name("short-trainings.jsonl")
Losses = dict[str, list[float | None]]
"""The validation losses of each architecture by name, after each length of training."""


def known_losses(results: Path = RESULTS) -> dict[int, Losses]:
    """Of each seed all that was trained alone."""
    found: dict[int, Losses] = {}
    for line in [*known_lines(SEARCHES), *known_lines(results)]:
        if "losses" in line:
            found.setdefault(line["seed"], line["losses"])
    short = [line for line in known_lines(SHORT) if line["arm"] == "crop and flip, 205 steps"]
    if short:
        found.setdefault(0, {line["arch"]: [line["loss"]] for line in short})
    return dict(sorted(found.items()))


def taus(losses: Losses, rung: int, space: NasBench201, costs: ArchCosts) -> tuple[int, list[float]]:
    """How many were trained up to a length, and the tau of their order with each weight."""
    sizes = {name: np.log(max(costs("flops", space.parse(name)), 1.0)) for name in losses}
    first = [-values[0] for values in losses.values() if values[0] is not None]
    merits, logs, truth = [], [], []
    for name, values in losses.items():
        if len(values) > rung and (loss := values[rung]) is not None:
            merits.append(-loss)
            logs.append(sizes[name])
            truth.append(judged(name)["cifar10"])
    loss_part = centred(merits, spread(first))
    size_part = centred(logs, spread(list(sizes.values())))
    return len(truth), [float(kendalltau(loss_part + w * size_part, truth).statistic) for w in WEIGHTS]


def table_of(found: dict[int, Losses], space: NasBench201, costs: ArchCosts) -> str:
    """A row for each seed and each length that at least six have reached."""
    heads = " | ".join(f"weight {weight:g}" for weight in WEIGHTS)
    rows = [f"| seed | trainings | architectures | {heads} |", "|---" * (3 + len(WEIGHTS)) + "|"]
    for seed, losses in found.items():
        for rung in range(max(len(values) for values in losses.values())):
            count, row = taus(losses, rung, space, costs)
            if count >= 6:
                length = "the shortest" if rung == 0 else f"{2**rung} times as long"
                rows.append(f"| {seed} | {length} | {count} | " + " | ".join(f"{tau:.2f}" for tau in row) + " |")
    return "\n".join(rows)


def main() -> None:
    """Take in a run, if one is named, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    space = NasBench201(**SIZES)
    if asked.run is not None:
        line = {"seed": asked.seed, "losses": losses_alone(space, read_records(asked.run))}
        with open(asked.results, "a") as file:
            file.write(json.dumps(line) + "\n")
    costs = ArchCosts(space, (3, 16, 16), 10)
    found = known_losses(asked.results)
    print(table_of({seed: losses for seed, losses in found.items() if seed not in JUDGED}, space, costs))
    if later := {seed: losses for seed, losses in found.items() if seed in JUDGED}:
        print("\nJudged seeds:\n" + table_of(later, space, costs))


if __name__ == "__main__":
    main()
