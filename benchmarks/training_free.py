"""How far scores of untrained networks rank NAS-Bench-201: each by itself, and aggregates of them.

``RAMET_DATA=... python -m benchmarks.training_free`` scores 1,000 architectures of each of three draws (0, 1 and 2: the
architectures, the weights and the images), keeps what it has scored in ``results/training-free.jsonl``, and prints
Kendall's tau, Spearman's rho, nDCG over the first 50 and the true rank of the first, with CPU-milliseconds. ``--draws
100`` is for choices; ``--scores synflow jacobian`` scores a part. Aggregates are of what was scored.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from ramet.data import data_folder, load
from ramet.ranking import SCORES, combine_ranks, discounted_gain, rank_correlation, top_n_rank
from ramet.seeding import numpy_generator, seeded_globally
from ramet.spaces import NasBench201

NUM_ARCHS, NUM_INPUTS = 1000, 16
RESULTS = Path(__file__).parents[1] / "results" / "training-free.jsonl"
COLUMN = "cifar10_test_acc_200ep"
AGGREGATES = {
    "synflow + jacobian": ("synflow", "jacobian"),
    "AZ-NAS": ("expressivity", "progressivity", "trainability", "flops"),
    "all but sizes": ("synflow", "jacobian", "naswot", "swap", "zico", "expressivity", "progressivity", "trainability"),
    "synflow + jacobian + layers + vkdnw": ("synflow", "jacobian", "layers", "vkdnw"),
}


def score_draw(name: str, draw: int, num_archs: int) -> dict[str, Any]:
    """One score of the architectures of a draw, an equal function once."""
    space = NasBench201(channels=8, cells_per_stage=1)
    rows = numpy_generator(draw, "architectures").permutation(len(space))[:num_archs]
    data = load("cifar10", image_size=16, validation_fraction=0.2, seed=draw)
    with seeded_globally(draw, "weights"):
        network = space.supernet(3, 10)
    score = SCORES.make(name, network, data.train.x[:NUM_INPUTS], y=data.train.y[:NUM_INPUTS])
    begun, known, values = time.process_time(), {}, []
    for arch in (space[int(row)] for row in rows):
        function = space.function_of(arch)
        if function not in known:
            known[function] = float(f"{score(arch):.6g}")  # six digits order them as well
        values.append(known[function])
    seconds = time.process_time() - begun
    return {"draw": draw, "score": name, "values": values, "distinct": len(known), "cpu_seconds": seconds}


def judged(values: np.ndarray, truth: np.ndarray) -> list[float]:
    """Tau, rho, nDCG over 50, and the true rank of the first."""
    rho = float(spearmanr(values, truth).statistic)
    return [rank_correlation(values, truth), rho, discounted_gain(values, truth, 50), top_n_rank(values, truth, 1)]


def main() -> None:
    """Score what is not known yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--scores", nargs="*", default=list(SCORES), choices=list(SCORES))
    parser.add_argument("--archs", type=int, default=NUM_ARCHS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with np.load(data_folder(None) / "nas" / "nasbench201.npz", allow_pickle=False) as table:
        places = {str(text): row for row, text in enumerate(table["arch"])}
        column = table[COLUMN].astype(float)
    space = NasBench201()
    lines = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    for draw in asked.draws:
        for name in asked.scores:
            if not any((line["draw"], line["score"]) == (draw, name) for line in lines):
                lines.append(score_draw(name, draw, asked.archs))
                with open(asked.results, "a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print("| score | draws | tau | rho | nDCG@50 | true rank of the first | CPU-ms |\n|---|---|---|---|---|---|---|")
    by_score: dict[str, list[list[float]]] = {}
    for draw in asked.draws:
        mine = {line["score"]: line for line in lines if line["draw"] == draw}
        count = min(len(line["values"]) for line in mine.values())
        rows = numpy_generator(draw, "architectures").permutation(len(space))[:count]
        truth = np.array([column[places[space.name(space[int(row)])]] for row in rows])
        values = {name: np.array(line["values"]) for name, line in mine.items()}
        cost = {name: 1000 * line["cpu_seconds"] / line["distinct"] for name, line in mine.items()}
        for name in values:
            by_score.setdefault(name, []).append([*judged(values[name], truth), cost[name]])
        for name, parts in AGGREGATES.items():
            if all(part in values for part in parts):
                for way in ("mean", "logarithm"):
                    mixed = combine_ranks([values[part] for part in parts], by=way)  # type: ignore[arg-type]
                    found = [*judged(mixed, truth), sum(cost[part] for part in parts)]
                    by_score.setdefault(f"{name}, {way}", []).append(found)
    for name, found in by_score.items():
        tau, rho, gain, first, cost_ms = np.mean(found, axis=0)
        print(f"| {name} | {len(found)} | {tau:.3f} | {rho:.3f} | {gain:.3f} | {first:.0f} | {cost_ms:.0f} |")


if __name__ == "__main__":
    main()
