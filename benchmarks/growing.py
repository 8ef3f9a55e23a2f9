"""``python -m benchmarks.growing``: a growth beside plain training, its own shape from scratch and pruning, equal work.

Every arm has the grown network's parameters and the growth's work (multiply-adds of training and of growing), and its
own learning rate: the best of the same few on validation images, by the tuning seeds. Then it is trained with judged
seeds at that rate. Records are appended to results/growing.jsonl, a line a training; what is there is left out.
``--table`` prints the tables of docs/growth.md from them. ``--curve`` compares the growth with a plain network of ten
times its size instead, which is tuned and trained for as many epochs as the growth is worth at its own size (M3: 98 %
of that accuracy, for at most 1.2 times the work of training the small size).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ramet.costs import count_flops, count_parameters
from ramet.data import DataSet, load
from ramet.growth import Budget, Edit, Ends, GrowRecipe, Widening, carry_out, find_coupling, make_method, make_network
from ramet.growth.arms import Arms
from ramet.growth.arms import scale as widen_to
from ramet.growth.base import redraw
from ramet.growth.growing import Growing
from ramet.growth.plan import ARMS, DEFAULT_METHOD, DEFAULT_STEP
from ramet.growth.work import step_work
from ramet.ranking import t_interval
from ramet.reports.formats import decimals
from ramet.training import accuracy, fit

RECORDS = Path(__file__).parents[1] / "results" / "growing.jsonl"
DEVELOPMENT = ("fashion-mnist", "cifar10", "mnist")
JUDGED = ("usps", "notmnist", "gtsrb")
"""Not used for any choice."""
TUNING_SEEDS = (100, 101, 102)
"""One has 400 validation images to tell rates apart by, a standard error of a point."""
RATES = (0.01, 0.03, 0.1)
"""Learning rates that every arm is tuned over."""
FULL, FULL_TIMES = "full", 10
"""An arm for the curve alone: a plain network so many times as large, for the epochs of the growth."""
GENERATION = 3
"""Of the default growth, and of what has its work: records of earlier ones (docs/decisions/059) are not mixed in."""


@dataclass(frozen=True)
class Scale:
    """How large everything is; a growth is worth so many epochs at its final size, and begins at a width of 4."""

    size: int = 20_000
    train_size: int = 2000
    eval_size: int | None = None
    image_size: int = 16
    epochs: int = 12
    batch_size: int = 32
    width: int = 4


DEFAULT = "grown"
FIRST: dict[str, Any] = {"method": "firefly:step_share=0.25,score_share=0.15", "step": 2.0, "begin": 0.0, "before": 0.3}
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "first generation": FIRST,
    "firefly": {"method": "firefly"},
    "begin 0.25": {"begin": 0.25},
    "rounds": {"schedule_over": "round", "step": 0.3, "epochs": 3},
    "by gain": FIRST | {"method": "firefly:worth=gain"},
    "per both": FIRST | {"method": "firefly:worth=both"},
    "steps of 60 %": {"step": 0.6},
    "steps of 300 %": {"step": 3.0},
    "finish scratch": {"finish": "scratch"},
    "before 0.15": {"before": 0.15},
    "before 0.5": {"before": 0.5},
    "averaged": {"average": "ema:0.98"},
    "epsilon 0.02": {"method": "firefly:epsilon=0.02"},
    "epsilon 0.5": {"method": "firefly:epsilon=0.5"},
    "net2net": {"method": "net2net"},
    "random": {"method": "random:num_new=16"},
}
"""Ways to grow, as what differs from the default; ``rounds`` was it before the first generation; it takes more work."""

Record = dict[str, Any]


def read(name: str, scale: Scale, seed: int) -> DataSet:
    """A set's images, split by the seed; all of its test images."""
    return load(name, image_size=scale.image_size, train_size=scale.train_size, eval_size=scale.eval_size, seed=seed)


def start_network(data: DataSet, scale: Scale, seed: int) -> nn.Module:
    """The VGG-like network that `ramet grow` begins with by default."""
    options = {"width": scale.width}
    return make_network("vgg", **data.form.to_json(), num_classes=data.num_outputs, options=options, seed=seed)


def grow(data: DataSet, scale: Scale, rate: float, seed: int, options: dict[str, Any]) -> Record:
    """One growth."""
    given = dict(options)
    method, step = given.pop("method", DEFAULT_METHOD), given.pop("step", DEFAULT_STEP)
    recipe = {"epochs": scale.epochs, "schedule_over": "work"} | given
    growing = Growing(
        network=start_network(data, scale, seed),
        data=(data.train.x, data.train.y, data.validation.x, data.validation.y),
        budget=Budget("params", scale.size, step, share=True),
        method=make_method(method),
        settings=GrowRecipe(batch_size=scale.batch_size, learning_rate=rate, **recipe),
        seed=seed,
        is_trained=False,
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


def key_of(name: str, scale: Scale, **rest: Any) -> Record:
    """What a record is found by."""
    return {"set": name, **asdict(scale), "generation": GENERATION, **rest}


def run(
    records: Records,
    names: Sequence[str],
    scale: Scale,
    seeds: Sequence[int],
    arms: Sequence[str],
    rates: Sequence[float] = RATES,
) -> Iterator[Record]:
    """Every arm with every rate and the tuning seeds, and then by its best rate with the seeds."""
    for name in names:
        for seed in (*TUNING_SEEDS, *seeds):
            data = read(name, scale, seed)
            for arm in arms:
                for rate in rates if seed in TUNING_SEEDS else [best_rate(records, name, scale, arm)]:
                    key = key_of(name, scale, arm=arm, seed=seed, rate=rate)
                    if records.get(**key) is not None:
                        continue
                    start = time.process_time()
                    if arm in (*ARMS, FULL):
                        wanted = rate if seed in TUNING_SEEDS else best_rate(records, name, scale, DEFAULT)
                        grown = records.get(**key_of(name, scale, arm=DEFAULT, seed=seed, rate=wanted))
                        assert grown is not None, f"{arm} is compared with a growth, so that {DEFAULT} must come first"
                        found = (
                            train_full(data, scale, rate, seed, grown)
                            if arm == FULL
                            else compare(data, scale, rate, seed, arm, grown)
                        )
                    else:
                        found = grow(data, scale, rate, seed, VARIANTS[arm])
                    seconds = round(time.process_time() - start, 1)
                    yield records.add({**key, **found, "seconds": seconds})


def best_rate(records: Records, name: str, scale: Scale, arm: str) -> float:
    """The learning rate that was best on validation images by the tuning seeds."""
    key = key_of(name, scale, arm=arm)
    return chosen_rate(row for row in records.found if all(row.get(part) == value for part, value in key.items()))


def chosen_rate(rows: Iterable[Record]) -> float:
    """The rate of the best mean over the tuning seeds that all rates have, of an arm's records; of equals the first."""
    tried: dict[float, dict[int, float]] = {}
    for row in rows:
        if row["seed"] in TUNING_SEEDS:
            tried.setdefault(float(row["rate"]), {})[row["seed"]] = row["validation"]
    common = set.intersection(*(set(scores) for scores in tried.values()))
    return max(tried, key=lambda rate: sum(tried[rate][seed] for seed in common))


def rows_of(records: Records, scale: Scale) -> list[Record]:
    """The records of judged seeds, each arm's at the learning rate that its tuning has chosen."""
    wanted = asdict(scale) | {"generation": GENERATION}
    of_scale = [row for row in records.found if all(row.get(name) == value for name, value in wanted.items())]
    judged = [row for row in of_scale if row["seed"] not in TUNING_SEEDS and "arm" in row]
    best = {key: best_rate(records, key[0], scale, key[1]) for key in {(row["set"], row["arm"]) for row in judged}}
    return [row for row in judged if row["rate"] == best[row["set"], row["arm"]]]


def table(records: Records, scale: Scale, names: Sequence[str], arms: Sequence[str]) -> str:
    """A row an arm: the test accuracy on each set, multiply-adds, work, and the growth's lead, paired by seeds."""
    rows = rows_of(records, scale)
    heads = [*names, "parameters", "multiply-adds", "work, of the growth's", "the growth's lead, points"]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    grown = {(row["set"], row["seed"]): row for row in rows if row["arm"] == DEFAULT}
    for arm in arms:
        own = {(row["set"], row["seed"]): row for row in rows if row["arm"] == arm and row["set"] in names}
        if not own:
            continue
        by_set = [[100 * row["test"] for (name, _), row in own.items() if name == wanted] for wanted in names]
        cells = [t_interval(values).text(decimals(1)) if values else "-" for values in by_set]
        paired = [key for key in own if key in grown]
        # A set and a seed is one sample: sets differ far more than seeds, and the lead is taken within each.
        leads = [100 * (grown[key]["test"] - own[key]["test"]) for key in paired]
        work = float(np.mean([own[key]["work"] / grown[key]["work"] for key in paired])) if paired else math.nan
        params, flops = (float(np.mean([row[name] for row in own.values()])) for name in ("params", "flops"))
        lead = "" if arm == DEFAULT or not leads else t_interval(leads).text(decimals(2))
        cells += [f"{params:,.0f}", f"{flops:,.0f}", f"{work:.2f}", lead]
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def train_full(data: DataSet, scale: Scale, rate: float, seed: int, grown: Record) -> Record:
    """The plain network of ten times the size, for the growth's epochs, and the work of those at the growth's size."""
    settings = GrowRecipe(batch_size=scale.batch_size, learning_rate=rate)
    num_steps = scale.epochs * math.ceil(len(data.train.x) / scale.batch_size)
    small, network = (start_network(data, scale, seed) for _ in range(2))
    for each, times in ((small, 1), (network, FULL_TIMES)):
        widen_to(each, data.train.x[:4], times * grown["params"])
    redraw(network, seed)
    fit(network, data.train.x, data.train.y, settings, seed=seed, num_steps=num_steps)
    work, small_work = (num_steps * step_work(each, data.train.x, scale.batch_size) for each in (network, small))
    return {**figures(network, data), "work": work, "work_of_the_small_size": small_work}


def curve(records: Records, scale: Scale, names: Sequence[str]) -> str:
    """A row a set: what of ten times the size's accuracy, size and work a growth has, paired by seeds."""
    rows = rows_of(records, scale)
    lines = ["| set | seeds | grown | full | of the accuracy, % | of the parameters, % | work, of training that size |"]
    lines.append("|---" * 7 + "|")
    for name in names:
        grown, full = ({r["seed"]: r for r in rows if r["set"] == name and r["arm"] == a} for a in (DEFAULT, FULL))
        seeds = sorted(grown.keys() & full.keys())
        if not seeds:
            continue
        tests = [[100 * of[seed]["test"] for seed in seeds] for of in (grown, full)]
        shares = [100 * grown[seed]["test"] / full[seed]["test"] for seed in seeds]
        size = 100 * float(np.mean([grown[seed]["params"] / full[seed]["params"] for seed in seeds]))
        work = float(np.mean([grown[seed]["work"] / full[seed]["work_of_the_small_size"] for seed in seeds]))
        cells = [*(t_interval(values).text(decimals(1)) for values in (*tests, shares)), f"{size:.1f}", f"{work:.2f}"]
        lines.append(f"| {name} | {len(seeds)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", default=",".join(JUDGED), help=f"of {', '.join((*DEVELOPMENT, *JUDGED))}")
    parser.add_argument("--seeds", type=int, default=5, help="judged seeds, beside those that tune")
    known = ", ".join((*VARIANTS, *ARMS)).replace("%", "%%")
    parser.add_argument("--arms", default="grown,plain,scratch,pruned", help=f"of {known}")
    parser.add_argument("--size", type=int, default=Scale.size, help="parameters of the grown network")
    parser.add_argument("--epochs", type=int, default=Scale.epochs, help="what the growth is worth at its final size")
    parser.add_argument("--train-size", type=int, default=Scale.train_size)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--table", action="store_true", help="print what was recorded, and train nothing")
    parser.add_argument("--curve", action="store_true", help="M3: the growth beside ten times its size")
    given = parser.parse_args()
    torch.set_num_threads(1)
    scale = Scale(size=given.size, epochs=given.epochs, train_size=given.train_size)
    records, names, arms = Records(given.records), given.sets.split(","), given.arms.split(",")
    if given.curve:
        arms = [DEFAULT, FULL]
    if not given.table:
        for row in run(records, names, scale, range(given.seeds), arms):
            print(f"{row['set']} {row['arm']} seed {row['seed']} rate {row['rate']}: {row['test']:.4f}", flush=True)
    print(curve(records, scale, names) if given.curve else table(records, scale, names, arms))


if __name__ == "__main__":
    main()
