"""What a trained backbone is worth to `ramet learn`: 10 tasks of CIFAR-100 on a network trained on CIFAR-10.

``RAMET_DATA=... python -m benchmarks.backbone`` learns the stream by every arm with the seeds 0, 1 and 2, appends a
line for each to ``results/backbone.jsonl``, leaves out what is there already, and prints the table of what is there.
``--seeds 20 --arms copies --rate 0.005`` tries another learning rate. The seeds from 20 on were there for choices,
which were made on validation images alone; the figures that count are the test accuracies of the others.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.backbone_network import IMAGE, ResNet, trained_network
from ramet.continual import LearnRecipe, learn, make_stream
from ramet.ranking.intervals import t_interval

STREAM, EPOCHS, BATCH, AUGMENT = "split-cifar100:10", 10, 16, "crop:2+flip"
RESULTS = Path(__file__).parents[1] / "results" / "backbone.jsonl"
FIRST_DEVELOPMENT_SEED = 20


@dataclass(frozen=True)
class Arm:
    """A method, its learning rate, and whether it begins with the trained network.

    The rates of copies and of adapters are the best of three on validation images of the development seeds 20 and 21
    (decision 038); the others were not tuned again, and adapters-first has the rate of adapters.
    """

    method: str
    learning_rate: float
    is_trained: bool = True


ARMS = {
    "copies": Arm("individual", 0.01),
    "bind-and-grow": Arm("bind-and-grow:probe_epochs=1", 0.02),
    "adapters": Arm("adapters", 0.04),
    "adapters-first": Arm("adapters:base=first,budget=0.16", 0.04),
    "frozen": Arm("frozen", 0.02),
    "fresh": Arm("individual", 0.02, is_trained=False),
}
REFERENCE = "copies"


def run_arm(name: str, seed: int, rate: float, folder: Path) -> dict[str, Any]:
    """Learn the stream of a seed; accuracies are means over tasks after the last of them."""
    arm = ARMS[name]
    stream = make_stream(STREAM, seed=seed, image_size=IMAGE)
    network = trained_network(seed, folder) if arm.is_trained else ResNet
    recipe = LearnRecipe(epochs=EPOCHS, batch_size=BATCH, learning_rate=rate, augment=AUGMENT)
    begun = time.process_time()
    learned = learn(stream, method=arm.method, network=network, settings=recipe, seed=seed)
    rows = learned.rows
    forgotten = [rows[place]["test"][place] - rows[-1]["test"][place] for place in range(len(rows))]
    return {
        "seed": seed,
        "arm": name,
        "method": arm.method,
        "learning_rate": rate,
        "epochs": EPOCHS,
        "augment": AUGMENT,
        "validation": float(np.mean(rows[-1]["validation"])),
        "test": float(np.mean(rows[-1]["test"])),
        "tasks": rows[-1]["test"],
        "forgotten": max(forgotten),
        "parameters": learned.network.num_parameters(),
        "cpu_seconds": round(time.process_time() - begun),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """The records so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(records: list[dict[str, Any]]) -> str:
    """Markdown: each arm at its learning rate, and its difference from the copies, seed by seed, with a t interval."""
    chosen = {
        (record["arm"], record["seed"]): record
        for record in records
        if record["seed"] < FIRST_DEVELOPMENT_SEED
        and record["method"] == ARMS[record["arm"]].method
        and record["epochs"] == EPOCHS
        and record["learning_rate"] == ARMS[record["arm"]].learning_rate
    }
    lines = ["| arm | test accuracy | minus copies, in points | parameters | forgotten |", "|---|---|---|---|---|"]
    for name in ARMS:
        seeds = sorted(seed for arm, seed in chosen if arm == name)
        if not seeds:
            continue
        own = [chosen[name, seed] for seed in seeds]
        pairs = [
            100 * (chosen[name, seed]["test"] - chosen[REFERENCE, seed]["test"])
            for seed in seeds
            if (REFERENCE, seed) in chosen
        ]
        difference = ""
        if name != REFERENCE and len(pairs) > 1:
            found = t_interval(pairs)
            each = ", ".join(f"{pair:+.1f}" for pair in pairs)
            difference = f"{found.value:+.1f} [{found.low:.1f}, {found.high:.1f}] ({each})"
        accuracy = 100 * np.mean([record["test"] for record in own])
        size = np.mean([record["parameters"] for record in own]) / 1000
        forgotten = 100 * max(record["forgotten"] for record in own)
        lines.append(f"| {name} | {accuracy:.1f} % | {difference} | {size:,.0f} k | {forgotten:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--rate", type=float, help="another learning rate than the chosen one")
    parser.add_argument("--weights", type=Path, default=Path("runs/backbone"), help="where trained backbones are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in map(int, options.seeds.split(",")):
        for name in options.arms.split(","):
            rate = options.rate or ARMS[name].learning_rate
            key = (seed, name, rate, ARMS[name].method, EPOCHS)
            fields = ("seed", "arm", "learning_rate", "method", "epochs")
            if any(tuple(record[field] for field in fields) == key for record in read(options.results)):
                continue
            line = json.dumps(run_arm(name, seed, rate, options.weights))
            with options.results.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    print(table(read(options.results)))


if __name__ == "__main__":
    main()
