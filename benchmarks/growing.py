"""``python -m benchmarks.growing``: a growth beside plain training, its own shape from scratch, and pruning, for equal work.

Every arm has the grown network's parameters and the work of the growth (multiply-adds of training, growth included), and
its own learning rate: the best of the same few on validation images, by the tuning seed. Then it is trained with the
judged seeds at that rate. Records are appended to results/growing.jsonl, a line a training; what is there is left out.
``--table`` prints the tables of docs/growth.md from them, ``--curve`` grows to a tenth of a large network instead (M3).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ramet.costs import count_flops, count_parameters
from ramet.data import DataSet, load
from ramet.growth import Budget, Ends, GrowRecipe, make_network
from ramet.growth.arms import ARMS, Arms
from ramet.growth.growing import Growing
from ramet.growth.methods.making import make_method
from ramet.ranking import t_interval
from ramet.growth.surgery.widening import Widening
from ramet.growth.base import Edit, carry_out
from ramet.growth.tracing.checking import find_coupling
from ramet.training import accuracy

RECORDS = Path(__file__).parents[1] / "results" / "growing.jsonl"
DEVELOPMENT = ("fashion-mnist", "cifar10", "mnist")
JUDGED = ("usps", "notmnist", "gtsrb")
"""Not used for any choice."""
TUNING_SEED = 100
RATES = (0.05, 0.15)


@dataclass(frozen=True)
class Scale:
    """How large everything is; a growth is worth so many epochs at its final size, and begins at a share of it."""

    size: int = 20_000
    train_size: int = 2000
    eval_size: int = 2000
    image_size: int = 16
    epochs: int = 16
    batch_size: int = 32
    share: float = 0.1


DEFAULT = "grown"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "rounds": {"schedule_over": "round", "step": 0.3, "epochs": 4},
    "one schedule": {"schedule_over": "growth", "step": 0.3, "epochs": 4},
    "steps of 60 %": {"step": 0.6},
    "steps of 300 %": {"step": 3.0},
    "finish scratch": {"finish": "scratch"},
    "before 0.15": {"before": 0.15},
    "before 0.5": {"before": 0.5},
    "net2net": {"method": "net2net"},
    "random": {"method": "random:num_new=16"},
    "epsilon 0.02": {"method": "firefly:epsilon=0.02"},
    "epsilon 0.5": {"method": "firefly:epsilon=0.5"},
    "per flops": {"method": "firefly:worth=flops"},
    "per params": {"method": "firefly:worth=params"},
    "per both": {"method": "firefly:worth=both"},
}
"""Ways to grow, as what differs from the default."""

Record = dict[str, Any]


def read(name: str, scale: Scale, seed: int) -> DataSet:
    """A set's images, split by the seed; all of its test images."""
    return load(name, image_size=scale.image_size, train_size=scale.train_size, eval_size=scale.eval_size, seed=seed)


def start_network(data: DataSet, scale: Scale, seed: int) -> nn.Module:
    """A VGG-like network of about the share of the final size."""
    made = [
        make_network("vgg", **data.form.to_json(), num_classes=data.num_outputs, options={"width": width}, seed=seed)
        for width in range(1, 13)
    ]
    return min(made, key=lambda network: abs(count_parameters(network) - scale.share * scale.size))


def grow(data: DataSet, scale: Scale, rate: float, seed: int, options: dict[str, Any]) -> Record:
    """One growth."""
    given = dict(options)
    method, step = given.pop("method", "firefly"), given.pop("step", 2.0)
    recipe = {"epochs": scale.epochs, "schedule_over": "work"} | given
    growing = Growing(
        network=start_network(data, scale, seed),
        data=(data.train.x, data.train.y, data.validation.x, data.validation.y),
        budget=Budget("params", scale.size, step, share=True),
        method=make_method(method),
        settings=GrowRecipe(batch_size=scale.batch_size, learning_rate=rate, **recipe),
        seed=seed,
    )
    growing.start()
    while growing.advance(Ends()) is not None:
        pass
    history = growing.history
    own = sum(step.growing_work for step in history.steps)
    groups = find_coupling(growing.network, growing.probe).groups
    return {
        **figures(growing.network, data),
        "work": history.work,
        "own_work": own,
        "curve": [[step.sizes["params"], step.score] for step in history.steps],
        "shape": {name: group.size for name, group in groups.items()},
    }


def figures(network: nn.Module, data: DataSet) -> Record:
    """What a trained network is worth, and its size."""
    return {
        "validation": accuracy(network, data.validation.x, data.validation.y),
        "test": accuracy(network, data.test.x, data.test.y),
        "params": count_parameters(network),
        "flops": count_flops(network, data.train.x.shape[1:]),
    }


def compare(data: DataSet, scale: Scale, rate: float, seed: int, arm: str, grown: Record) -> Record:
    """One arm, to the size of a growth and with its work."""
    shaped = start_network(data, scale, seed)
    coupling = find_coupling(shaped, data.train.x[:4])
    added = {name: grown["shape"][name] - group.size for name, group in coupling.groups.items()}
    widenings = {name: Widening(num_new=count) for name, count in added.items() if count}
    carry_out(shaped, coupling, [], Edit(widenings), seed=0)
    arms = Arms(
        start=lambda: start_network(data, scale, seed),
        grown=shaped,
        x=data.train.x,
        y=data.train.y,
        settings=GrowRecipe(batch_size=scale.batch_size, learning_rate=rate),
        work=grown["work"],
        seed=seed,
    )
    trained = arms(arm)
    return {**figures(trained.network, data), "work": trained.work}


class Records:
    """The lines of a file, and what is not among them yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[Record] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def get(self, **key: Any) -> Record | None:
        """The record of a key, if there is one."""
        return next((row for row in self.found if all(row.get(name) == value for name, value in key.items())), None)

    def add(self, record: Record) -> Record:
        """Append one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.found.append(record)
        return record


def run(
    records: Records, names: Sequence[str], scale: Scale, seeds: Sequence[int], arms: Sequence[str], rates: Sequence[float]
) -> Iterator[Record]:
    """Every arm with every rate and the tuning seed, and then by its best rate with the seeds."""
    for name in names:
        for seed in (TUNING_SEED, *seeds):
            data = read(name, scale, seed)
            for arm in arms:
                for rate in rates if seed == TUNING_SEED else [best_rate(records, name, scale, arm)]:
                    key = {"set": name, **asdict(scale), "arm": arm, "seed": seed, "rate": rate}
                    if records.get(**key) is not None:
                        continue
                    start = time.process_time()
                    if arm in ARMS:
                        wanted = rate if seed == TUNING_SEED else best_rate(records, name, scale, DEFAULT)
                        grown = records.get(**(key | {"arm": DEFAULT, "rate": wanted}))
                        assert grown is not None, f"{arm} is compared with a growth, so that {DEFAULT} must come first"
                        found = compare(data, scale, rate, seed, arm, grown)
                    else:
                        found = grow(data, scale, rate, seed, VARIANTS[arm])
                    seconds = round(time.process_time() - start, 1)
                    yield records.add({**key, **found, "seconds": seconds})


def best_rate(records: Records, name: str, scale: Scale, arm: str) -> float:
    """The learning rate that was best on validation images by the tuning seed."""
    key = {"set": name, **asdict(scale), "arm": arm, "seed": TUNING_SEED}
    tried = [row for row in records.found if all(row.get(part) == value for part, value in key.items())]
    return float(max(tried, key=lambda row: row["validation"])["rate"])
