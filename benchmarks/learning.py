"""What a stream is learned best by: methods against separate networks of the same size and work, and progressive ones.

``RAMET_DATA=... python -m benchmarks.learning --streams permuted-digits --seeds 50 51 --arms warm-start separate``
learns every stream by every arm with every seed, appends a line for each to ``results/learning.jsonl``, leaves out what
is there already, and prints the tables of what is there. ``ARM=control`` are networks for each task alone of the same
total parameters and work as ARM, task by task; ``ARM=work`` networks of full size with the same work. ``ARM~quarter``
has a budget of a quarter of the parameters of progressive networks, which must have run before; ``ARM~quarter@work``
has as many epochs beside as the work of progressive networks pays for, which is several times its own.

The streams of ``DEVELOPMENT`` and their seeds, from 50 on, were there for choices; those of ``JUDGED`` with the seeds
from 0 on are what counts. One process, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ramet.continual import LearnRecipe, learn, make_stream
from ramet.continual.methods import make_method
from ramet.continual.methods.separate import Separate, separate_as
from ramet.continual.networks.making import make_template
from ramet.continual.streams.stream import Stream
from ramet.ranking.intervals import t_interval

RESULTS = Path(__file__).parents[1] / "results" / "learning.jsonl"
CONV, WIDE = "conv:12,24,24,64,64", "mlp:64,64"
CONTROLS = ("control", "work")
DOMAINS = ("digits", "usps", "mnist", "fashion-mnist", "notmnist", "gtsrb", "cifar10")


@dataclass(frozen=True)
class Case:
    """A stream, its data sets where it is made of several, the network, and which part of the data is taken."""

    stream: str
    network: str
    sets: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, seed: int, folder: Path) -> Stream:
        """The stream of a seed."""
        source: str | Path = self.stream
        if self.sets:
            source = folder / f"{self.stream}.json"
            folder.mkdir(parents=True, exist_ok=True)
            source.write_text(json.dumps([{"name": name, "data": name} for name in self.sets]), encoding="utf-8")
        return make_stream(source, seed=seed, **self.options)


ARMS = [
    "progressive",
    "warm-start",
    "warm-start=control",
    "warm-start~quarter",
    "warm-start~quarter=control",
    "warm-start~quarter@work",
    "warm-start~quarter@work=control",
]
ARMS += ["firefly", "firefly=control", "bind-and-grow", "bind-and-grow=control", "frozen", "joint"]


def _small(train: int, evaluation: int = 1500, size: int = 16) -> dict[str, Any]:
    return {"train_size": train, "eval_size": evaluation, "image_size": size}


DEVELOPMENT = {
    "permuted-digits": Case("permuted-digits:5", WIDE, options={"train_size": 600}),
    "split-fashion": Case("split-fashion-mnist:5", CONV, options=_small(2000)),
    "split-cifar10": Case("split-cifar10:5", CONV, options=_small(3000)),
    "unrelated": Case("unrelated", CONV, ("mnist", "fashion-mnist", "cifar10"), _small(1000)),
}
JUDGED = {
    "split-cifar100": Case("split-cifar100:10", CONV, options=_small(6000)),
    "permuted-mnist": Case("permuted-mnist:10", WIDE, options=_small(600, 1500, 14)),
    # The stream `domains` without Omniglot, whose 1,623 classes leave no small part of it.
    "domains": Case("seven-domains", WIDE, DOMAINS, {"train_size": 600, "eval_size": 250}),
    "three-sets": Case("three-sets", CONV, ("notmnist", "gtsrb", "usps"), _small(1000, 600)),
}
CASES = DEVELOPMENT | JUDGED


def run_arm(case: Case, arm: str, seed: int, folder: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Learn the stream of a seed; accuracies are means over tasks after the last of them."""
    stream = case.make(seed, folder)
    template = make_template(case.network, form=stream.form, num_classes=stream[0].info.num_classes)
    name, control = arm, ""
    for kind in CONTROLS:
        if arm.endswith(f"={kind}"):
            name, control = arm.removesuffix(f"={kind}"), kind
    settings = LearnRecipe()
    name, at, _ = name.partition("@work")
    if at and not control:
        pays_for = sum(known["progressive"]["work"]) / sum(known[name]["work"])
        settings = replace(settings, epochs=int(pays_for * settings.epochs))
    if control == "work":
        method: Any = Separate(work=known[name + at]["work"])
    elif control:
        classes = [task.info.num_classes for task in stream]
        method = separate_as(template, classes, known[name + at]["parameters"], known[name + at]["work"])
    elif name.endswith("~quarter"):
        method = make_method(name.removesuffix("~quarter"), budget=known["progressive"]["parameters"] // 4)
    else:
        method = make_method(name)
    begun = time.process_time()
    scenario = "all" if method.needs_earlier else "streaming"
    learned = learn(stream, method=method, network=template, settings=settings, seed=seed, scenario=scenario)
    last = learned.rows[-1]
    return {
        "test": float(np.mean(last["test"])),
        "validation": float(np.mean(last["validation"])),
        "tasks": last["test"],
        "parameters": last["parameters"],
        "work": [row["work"] for row in learned.rows],
        "forgetting": learned.figures()["forgetting"],
        "epochs": [row["notes"].get("epochs") for row in learned.rows],
        "relatives": [row["notes"].get("relative") for row in learned.rows],
        "seconds": time.process_time() - begun,
    }


def read(path: Path) -> list[dict[str, Any]]:
    """The records so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(records: list[dict[str, Any]], stream: str, reference: str) -> str:
    """Markdown: each arm on a stream, and its difference from a reference, seed by seed, with a t interval."""
    found = {(record["arm"], record["seed"]): record for record in records if record["stream"] == stream}
    lines = [
        f"| {stream} | test accuracy | minus {reference}, in points | parameters | work, G | forgotten | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(arm for arm, _ in found):
        seeds = sorted(seed for arm, seed in found if arm == name)
        own = [found[name, seed] for seed in seeds]
        pairs = [
            100 * (found[name, seed]["test"] - found[reference, seed]["test"])
            for seed in seeds
            if (reference, seed) in found
        ]
        difference = ""
        if name != reference and len(pairs) > 1:
            interval = t_interval(pairs)
            difference = f"{interval.value:+.2f} [{interval.low:.2f}, {interval.high:.2f}]"
        accuracy, size = (np.mean([record[key] for record in own]) for key in ("test", "parameters"))
        work = np.mean([sum(record["work"]) for record in own]) / 1e9
        forgotten = 100 * max(record["forgetting"] for record in own)
        lines.append(
            f"| {name} | {100 * accuracy:.2f} | {difference} | {size / 1000:.1f} k | {work:.1f} | {forgotten:.1f} | "
            f"{len(own)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="+", default=list(JUDGED), choices=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=ARMS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, default=Path("runs/learning"), help="where lists of data sets are put")
    parser.add_argument("--reference", default="warm-start=control", help="what the tables compare with")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for stream in options.streams:
        for seed in options.seeds:
            for arm in options.arms:
                known = {
                    record["arm"]: record
                    for record in read(options.results)
                    if record["stream"] == stream and record["seed"] == seed
                }
                if arm in known:
                    continue
                found = run_arm(CASES[stream], arm, seed, options.folder, known)
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"stream": stream, "seed": seed, "arm": arm, **found}) + "\n")
    records = read(options.results)
    for stream in options.streams:
        print(table(records, stream, options.reference), end="\n\n")


if __name__ == "__main__":
    main()
